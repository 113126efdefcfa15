#!/usr/bin/env bash
# Builds everything and runs its tests; sets the machine up first (see scripts/setup.sh).
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

usage() {
  cat <<'USAGE'
usage: ./test.sh [Maven arguments]
       ./test.sh --answers DIR [Maven arguments]

Builds all modules, runs all tests and prints, as the last line, how many passed, failed and were skipped.

  -pl MODULE -am   that module and what it needs (any Maven argument is passed on)
  --answers DIR    check the connector's decisions against the answer files in DIR, and nothing else
USAGE
}

answers=
case "${1:-}" in
  -h | --help)
    usage
    exit 0
    ;;
  --answers)
    answers=${2:-}
    shift $(($# > 1 ? 2 : 1))
    ;;
  --answers=*)
    answers=${1#--answers=}
    shift
    ;;
  *) answers=none ;;
esac

exec </dev/null
if [ "$answers" = none ]; then
  level=all
  goals=(verify)
elif [ -d "$answers" ]; then
  level=build
  goals=(test -pl connector-core -am "-Dmooncake4j.answers=$(cd "$answers" && pwd -P)"
    "-Dtest=*AnswersTest" -Dsurefire.failIfNoSpecifiedTests=false)
else
  echo "test.sh: --answers needs an existing folder (answers=$answers)" >&2
  usage >&2
  exit 2
fi

cd "$root"
# shellcheck source=scripts/setup.sh
. scripts/setup.sh
m4j_setup "$level" || exit 1

# Reports of an earlier run would be counted again.
rm -rf -- {.,examples}/*/target/surefire-reports {.,examples}/*/target/failsafe-reports

# The tests with a real model are skipped, and say so, where it cannot be had.
case " $* " in
  *jlama*) model=$answers ;;
  *" -pl"* | *" --projects"*) model= ;; # other modules
  *) model=$answers ;;
esac
if [ "$model" = none ]; then
  # shellcheck source=scripts/model.sh
  . scripts/model.sh
  if m4j_fetch_model; then
    export MOONCAKE4J_MODEL_GGUF=$M4J_GGUF MOONCAKE4J_MODEL_FOLDER=$M4J_MODEL
  fi
fi

status=0
# A failing module does not hide the results of those that do not depend on it.
mvn -B -ntp --fail-at-end "${goals[@]}" "$@" || status=$?
echo # Maven ends with the terminal's reset sequence and no newline
[ "$status" = 0 ] || echo "test.sh: Maven failed (exit=$status): its [ERROR] lines above say why"

totals=0
"$JAVA_HOME/bin/java" -XX:TieredStopAtLevel=1 scripts/TestTotals.java ./*/target ./examples/*/target || totals=$?
exit $((status != 0 ? status : totals))
