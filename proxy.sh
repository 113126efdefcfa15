#!/usr/bin/env bash
# Runs the proxy with the arguments given (--help lists them), after setting the machine up (see
# scripts/setup.sh: it needs Java and Maven alone) and, where sources are newer than the last build,
# building.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# A closed standard input would give its number to the next file opened.
{ : 3<&0; } 2>/dev/null || exec </dev/null

# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
m4j_setup build </dev/null || exit 1

# shellcheck source=scripts/examples.sh
. "$root/scripts/examples.sh"
m4j_build_examples proxy || exit 1

# By exec: a SIGTERM to this script is one to the proxy.
exec "$JAVA_HOME/bin/java" -Dorg.slf4j.simpleLogger.showDateTime=true \
  -Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd\'T\'HH:mm:ss.SSSXXX \
  -Dorg.slf4j.simpleLogger.showThreadName=false -Dorg.slf4j.simpleLogger.showShortLogName=true \
  -cp "$M4J_EXAMPLES_PATH" dev.mooncake4j.examples.proxy.Proxy "$@"
