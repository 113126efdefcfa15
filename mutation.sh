#!/usr/bin/env bash
# Mutation tests of the packages that plan transfers and keep leases and requests.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

usage() {
  cat <<'USAGE'
usage: ./mutation.sh [Maven arguments]

Changes the planner, the scheduler side and both halves of the protocol in small ways, one at a time, and looks whether a
test notices. Fails when fewer than 80 of 100 changes are noticed. Takes 10 to 25 minutes on two cores, more on busy ones;
the report is connector-core/target/pit-reports/index.html.

  -DtargetClasses=dev.mooncake4j.core.plan.*   only these classes
USAGE
}

case "${1:-}" in
  -h | --help)
    usage
    exit 0
    ;;
esac
exec </dev/null
cd "$root"
# shellcheck source=scripts/setup.sh
. scripts/setup.sh
m4j_setup build || exit 1

exec mvn -B -ntp -Pmutation -pl connector-core -am \
  test-compile org.pitest:pitest-maven:mutationCoverage "$@"
