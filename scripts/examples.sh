#!/usr/bin/env bash
# Builds the example programs where sources are newer than the last build.
#
# Sourced by the scripts that run them, after scripts/setup.sh and m4j_setup; they then call
# "m4j_build_examples NAME", and find what goes on the class path in M4J_EXAMPLES_PATH.
# NAME stands before each line, all on stderr. M4J_MODULE, set before, is another module to build.

M4J_ROOT=$(unset CDPATH && cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
M4J_MODULE=${M4J_MODULE:-examples}
M4J_TARGET=$M4J_ROOT/$M4J_MODULE/target
# shellcheck disable=SC2034 # for those who source this
M4J_EXAMPLES_PATH="$M4J_TARGET/classes:$M4J_TARGET/lib/*"

m4j_examples_are_built() {
  [ -f "$M4J_TARGET/examples.stamp" ] &&
    [ -z "$(find "$M4J_ROOT"/pom.xml "$M4J_ROOT"/*/pom.xml "$M4J_ROOT"/*/src/main \
      "$M4J_ROOT"/examples/*/pom.xml "$M4J_ROOT"/examples/*/src/main \
      -newer "$M4J_TARGET/examples.stamp" -print -quit)" ]
}

# Turns Maven's output into one line that says how far it is; only a terminal sees it.
m4j_show_progress() { # name
  local line downloads=0 at="starting Maven"
  [ -t 2 ] || exec cat >/dev/null
  while IFS= read -r line; do
    case "$line" in
      *Downloaded*) downloads=$((downloads + 1)) ;;
      *Building*\[*/*\]*)
        at=${line##*Building }
        at="${at##*[}${at%%  *}"
        at=${at/]/ }
        ;;
      *) continue ;;
    esac
    printf '\r\033[K%s: building: %s (%d files downloaded)' "$1" "$at" "$downloads" >&2
  done
  printf '\r\033[K' >&2
}

m4j_compile_examples() { # name
  local began=$SECONDS log=$M4J_TARGET/examples-build.log pending=$M4J_TARGET/examples.stamp.pending
  echo "$1: building (the first time some minutes, for the downloads)" >&2
  # Libraries of an earlier version would stay on the class path.
  rm -rf "$M4J_TARGET/examples.stamp" "${M4J_TARGET:?}/lib"
  : >"$pending" # the time of the sources that are about to be read
  if ! (cd "$M4J_ROOT" && mvn -B -pl "$M4J_MODULE" -am -Dmaven.test.skip=true -Dspotless.check.skip=true package) \
    </dev/null 2>&1 | tee "$log" | m4j_show_progress "$1"; then
    grep -E '^\[ERROR\]' "$log" | head -n 30 >&2 || tail -n 30 "$log" >&2
    echo "$1: the build failed: all of its output is in $log" >&2
    return 1
  fi
  mv "$pending" "$M4J_TARGET/examples.stamp"
  echo "$1: built in $((SECONDS - began)) s" >&2
}

# Programs are often started side by side: one builds, the others wait. Needs pipefail.
m4j_build_examples() { # name
  m4j_examples_are_built && return 0
  mkdir -p "$M4J_TARGET"
  (
    if command -v flock >/dev/null; then flock 8; fi
    m4j_examples_are_built || m4j_compile_examples "$1"
  ) 8>>"$M4J_TARGET/examples.lock"
}
