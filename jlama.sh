#!/usr/bin/env bash
# Starts one inference server with the arguments given (--help lists them; docs/jlama.md has a prefiller,
# a decoder and a proxy side by side), after setting the machine up (see scripts/setup.sh and
# scripts/model.sh) and, where sources are newer than the last build, building.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# A closed standard input would give its number to the next file opened.
{ : 3<&0; } 2>/dev/null || exec </dev/null

# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
m4j_setup all </dev/null || exit 1

# shellcheck source=scripts/jlama.sh
. "$root/scripts/jlama.sh"
m4j_prepare_jlama jlama "$@" || exit 1

# By exec: a SIGTERM to this script is one to the server.
exec "$JAVA_HOME/bin/java" "${M4J_JLAMA_FLAGS[@]}" -cp "$M4J_EXAMPLES_PATH" \
  dev.mooncake4j.examples.jlama.server.JlamaServer "$@"
