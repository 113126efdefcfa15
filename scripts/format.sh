#!/usr/bin/env bash
# Formats the Java sources of all modules, or of those named: scripts/format.sh [--check] [MODULE...]
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."

goal=apply
if [ "${1:-}" = --check ]; then
  goal=check
  shift
fi
# The bom has no parent, and so no formatter.
modules='!bom'
if [ $# -gt 0 ]; then
  modules=$(IFS=, && echo "$*")
fi

# shellcheck source=scripts/setup.sh
. scripts/setup.sh
m4j_setup build || exit 1
exec mvn -B -q -ntp "spotless:$goal" -pl "$modules" </dev/null
