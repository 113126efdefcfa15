#!/usr/bin/env bash
# Runs the key-value cache demo with the arguments given (--help lists them), after setting the machine
# up (see scripts/setup.sh) and, where sources are newer than the last build, building.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# A closed standard input would give its number to the next file opened.
{ : 3<&0; } 2>/dev/null || exec </dev/null

# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
m4j_setup all </dev/null || exit 1

target=$root/examples/target
stamp=$target/demo.stamp
log=$target/demo-build.log

up_to_date() {
  [ -f "$stamp" ] &&
    [ -z "$(find "$root"/pom.xml "$root"/*/pom.xml "$root"/*/src/main -newer "$stamp" -print -quit)" ]
}

# Turns Maven's output into one line that says how far it is; only a terminal sees it.
show_progress() {
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
    printf '\r\033[Kdemo: building: %s (%d files downloaded)' "$at" "$downloads" >&2
  done
  printf '\r\033[K' >&2
}

build() {
  local began=$SECONDS pending=$stamp.pending
  echo "demo: building (the first time some minutes, for the downloads)" >&2
  rm -rf "$stamp" "${target:?}/lib" # libraries of an earlier version would stay on the class path
  : >"$pending"                 # the time of the sources that are about to be read
  if ! (cd "$root" && mvn -B -pl examples -am -Dmaven.test.skip=true -Dspotless.check.skip=true package) \
    </dev/null 2>&1 | tee "$log" | show_progress; then
    grep -E '^\[ERROR\]' "$log" | head -n 30 >&2 || tail -n 30 "$log" >&2
    echo "demo: the build failed: all of its output is in $log" >&2
    return 1
  fi
  mv "$pending" "$stamp"
  echo "demo: built in $((SECONDS - began)) s" >&2
}

if ! up_to_date; then
  # Prefiller and decoder are often started side by side: one builds, the other waits.
  mkdir -p "$target"
  (
    if command -v flock >/dev/null; then flock 8; fi
    up_to_date || build
  ) 8>>"$target/demo.lock"
fi

exec "$JAVA_HOME/bin/java" --enable-native-access=ALL-UNNAMED \
  -cp "$target/classes:$target/lib/*" dev.mooncake4j.examples.demo.KvDemo "$@"
