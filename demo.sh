#!/usr/bin/env bash
# Runs the demo with the arguments given (--help lists them), after setting the machine up (see
# scripts/setup.sh and scripts/model.sh) and, where sources are newer than the last build, building:
# prefiller, decoder and proxy with a real model. "./demo.sh --kv-only …" is the demo without a model.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# A closed standard input would give its number to the next file opened.
{ : 3<&0; } 2>/dev/null || exec </dev/null

# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
m4j_setup all </dev/null || exit 1

if [ "${1:-}" = --kv-only ]; then
  shift
  # shellcheck source=scripts/examples.sh
  . "$root/scripts/examples.sh"
  m4j_build_examples demo || exit 1
  exec "$JAVA_HOME/bin/java" --enable-native-access=ALL-UNNAMED \
    -cp "$M4J_EXAMPLES_PATH" dev.mooncake4j.examples.demo.KvDemo "$@"
fi

# shellcheck source=scripts/jlama.sh
. "$root/scripts/jlama.sh"
m4j_prepare_jlama demo "$@" || exit 1
exec "$JAVA_HOME/bin/java" "${M4J_JLAMA_FLAGS[@]}" -cp "$M4J_EXAMPLES_PATH" \
  dev.mooncake4j.examples.jlama.demo.JlamaDemo "$@"
