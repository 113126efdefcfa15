#!/usr/bin/env bash
# Runs the Java connector against vLLM's own MooncakeConnector, both ways (--help says more), after setting
# the machine up (see scripts/setup.sh), building the Java peer where sources are newer than the last build,
# and, the first time, installing vLLM into a virtual environment of its own.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

usage() {
  cat <<'USAGE'
usage: ./interop.sh [--only PATTERN]... [--logs DIR] [--keep-logs]
       ./interop.sh --list | --can-run | --python | --help

Transfers KV blocks between the Java connector and vLLM's own MooncakeConnector, both ways, checks the bytes on
the far side, and ends with a table of the cases. The first run installs vLLM: 10 GB, some minutes.

  --only PATTERN  cases whose line in the list has this text; * and ? stand for any text and any character
  --list          list the cases (those that --only selects), and run none
  --logs DIR      where the peers' logs go; otherwise target/interop/logs, which a run empties
  --keep-logs     keep the logs of a run without failures
  --python        install vLLM if it is not there, and tell the Python that has it
  --can-run       run nothing; the exit code is 0 if vLLM is installed or there is room for it
USAGE
}

# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"

target=$root/target/interop
home=$M4J_CACHE/interop
venv=$home/venv
complete=$venv/.complete
requirements=$root/interop/requirements.txt
needed_gb=20

say() { printf 'interop: %s\n' "$*" >&2; }

# --- vLLM ------------------------------------------------------------------------------------------------

installed() { [ -x "$venv/bin/python" ] && cmp -s "$requirements" "$complete"; }

free_gb() { df -Pk "$1" | awk 'NR == 2 { print int($4 / 1024 / 1024) }'; }

# vLLM's own limits: from 3.11 on, before 3.15.
find_python() {
  local python
  for python in python3 python3.11 python3.12 python3.13 python3.14; do
    if "$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; then
      command -v "$python"
      return 0
    fi
  done
  return 1
}

install() {
  local python attempt free began=$SECONDS
  mkdir -p "$home"
  free=$(free_gb "$home")
  if [ "$free" -lt "$needed_gb" ]; then
    say "vLLM needs $needed_gb GB of free disk, and $home has $free: free some, or set MOONCAKE4J_CACHE to a folder elsewhere"
    return 1
  fi
  if ! python=$(find_python); then
    say "vLLM needs Python 3.11 to 3.14 with its venv module (Debian: python3-venv); python3 is $(python3 -V 2>&1 || true)"
    return 1
  fi
  say "installing into $venv: $(tr '\n' ' ' <"$requirements")(some 10 GB, some minutes)"
  for attempt in 1 2 3; do
    # A complete environment without its mark, of an earlier run that was ended, is only looked through by pip.
    if { [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"; } >>"$home/install.log" 2>&1 &&
      "$venv/bin/python" -m pip --disable-pip-version-check install -r "$requirements" >>"$home/install.log" 2>&1; then
      cp "$requirements" "$complete"
      say "installed in $((SECONDS - began)) s"
      return 0
    fi
    say "attempt $attempt of 3 failed: $(tail -n 1 "$home/install.log")"
    [ "$attempt" = 3 ] || sleep $((attempt * 5))
  done
  say "vLLM could not be installed; all of pip's output is in $home/install.log"
  return 1
}

# ---------------------------------------------------------------------------------------------------------

case "${1:-}" in
  -h | --help)
    usage
    exit 0
    ;;
  --can-run)
    installed && exit 0
    mkdir -p "$home" && [ "$(free_gb "$home")" -ge "$needed_gb" ]
    exit
    ;;
esac

exec </dev/null
m4j_setup all || exit 1
mkdir -p "$home"
if ! installed; then
  ( # one installs, others wait
    if command -v flock >/dev/null; then flock 8; fi
    installed || install
  ) 8>>"$home/install.lock" || exit 1
fi

if [ "${1:-}" = --python ]; then
  printf '%s\n' "$venv/bin/python"
  exit 0
fi

# shellcheck disable=SC2034 # for scripts/examples.sh
M4J_MODULE=integration-tests
# shellcheck source=scripts/examples.sh
. "$root/scripts/examples.sh"
m4j_build_examples interop || exit 1

export INTEROP_TARGET=$target INTEROP_CLASS_PATH=$M4J_EXAMPLES_PATH
exec "$venv/bin/python" "$root/interop/run.py" "$@"
