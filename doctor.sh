#!/usr/bin/env bash
# Looks at what this host has for transfers and what it reaches (--help lists the arguments), after
# setting the machine up (see scripts/setup.sh) and, where sources are newer than the last build,
# building. Its output is what a bug report needs.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# A closed standard input would give its number to the next file opened.
{ : 3<&0; } 2>/dev/null || exec </dev/null

# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
# Without an engine too: that there is none is then what the doctor says.
m4j_setup all </dev/null || m4j_setup build </dev/null || exit 1

# shellcheck source=scripts/examples.sh
. "$root/scripts/examples.sh"
m4j_build_examples doctor || exit 1

revision=$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
exec "$JAVA_HOME/bin/java" --enable-native-access=ALL-UNNAMED -Dmooncake4j.revision="$revision" \
  -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
  -cp "$M4J_EXAMPLES_PATH" dev.mooncake4j.examples.doctor.Doctor "$@"
