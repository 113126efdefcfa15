#!/usr/bin/env bash
# Fuzzes what others' bytes reach: tries inputs that reach new code until the time is over, or one breaks a rule.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

# Name, module, test.
targets=(
  "request connector-core dev.mooncake4j.core.wire.WireFuzzTest#request"
  "response connector-core dev.mooncake4j.core.wire.WireFuzzTest#response"
  "stream connector-core dev.mooncake4j.core.channel.ZmtpFuzzTest#stream"
  "config connector-core dev.mooncake4j.core.config.ConfigFuzzTest#json"
  "http bootstrap dev.mooncake4j.bootstrap.BootstrapFuzzTest#http"
  "answer bootstrap dev.mooncake4j.bootstrap.BootstrapFuzzTest#answer"
)

usage() {
  cat <<'USAGE'
usage: ./fuzz.sh [--seconds N] [TARGET...]

Fuzzes each target, or those named, for N seconds (60), one after the other. Fails when an input breaks a target's rules:
that input is then among the test's inputs in src/test/resources, where ./test.sh tries it with the others.

  request    pull requests, renewals and releases, as a decoder sends them
  response   answers, as a prefiller sends them
  stream     the ZMTP stream beneath both
  config     the JSON of --kv-transfer-config
  http       what is sent to the bootstrap server
  answer     what a bootstrap server answers to /query, and its errors
USAGE
}

seconds=60
wanted=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help)
      usage
      exit 0
      ;;
    --seconds | --seconds=*)
      if [ "$1" = --seconds ]; then
        seconds=${2:-}
        shift $(($# > 1 ? 1 : 0))
      else
        seconds=${1#--seconds=}
      fi
      if ! [[ $seconds =~ ^[1-9][0-9]{0,6}$ ]]; then
        echo "fuzz.sh: --seconds needs a whole number above 0 (seconds=$seconds)" >&2
        exit 2
      fi
      ;;
    *)
      if [[ " ${targets[*]%% *} " != *" $1 "* ]]; then
        echo "fuzz.sh: no such target (target=$1): give one of ${targets[*]%% *}" >&2
        exit 2
      fi
      wanted+=("$1")
      ;;
  esac
  shift
done
[ ${#wanted[@]} -gt 0 ] || wanted=("${targets[@]%% *}")

exec </dev/null
cd "$root"
# shellcheck source=scripts/setup.sh
. scripts/setup.sh
m4j_setup build || exit 1

echo "fuzz: building" >&2
log=$root/connector-core/target/fuzz-build.log
mkdir -p "${log%/*}"
if ! mvn -B -ntp -pl connector-core,bootstrap -am -Dspotless.check.skip=true -Dmdep.includeScope=test \
  -Dmdep.outputFile=target/fuzz.classpath test-compile dependency:build-classpath >"$log" 2>&1; then
  grep -a -E '^\[ERROR\]' "$log" | head -n 30 >&2 || tail -n 30 "$log" >&2
  echo "fuzz: the build failed: all of its output is in $log" >&2
  exit 1
fi

# The fuzzer keeps what it has learnt in .cifuzz-corpus of the module, and goes on from there.
fuzz() { # name, module, test
  local log=$root/$2/target/fuzz-$1.log status=0
  (
    cd "$root/$2"
    exec "$JAVA_HOME/bin/java" -Xmx768m -Xshare:off -XX:+EnableDynamicAgentLoading \
      --enable-native-access=ALL-UNNAMED --sun-misc-unsafe-memory-access=allow \
      -Dorg.slf4j.simpleLogger.defaultLogLevel=off -cp "target/test-classes:target/classes:$(cat target/fuzz.classpath)" \
      com.code_intelligence.jazzer.Jazzer --target_class="${3%#*}" --target_method="${3#*#}" \
      -max_total_time="$seconds" -timeout=10
  ) >"$log" 2>&1 || status=$?
  if [ "$status" = 0 ]; then
    echo "fuzz: $1 ok, $(sed -n 's/^Done \([0-9]*\) runs in \([0-9]*\) second.*/\1 inputs in \2 s/p' "$log" | tail -n 1)"
    return 0
  fi
  grep -a -A 12 -m 1 -E '^== |^ERROR:|^Exception in' "$log" || tail -n 15 "$log"
  sed -n 's/.*Test unit written to /fuzz: input: /p' "$log"
  echo "fuzz: $1 FAILED (exit=$status): all of its output is in $log"
  return 1
}

failed=()
for target in "${targets[@]}"; do
  read -r name module test <<<"$target"
  [[ " ${wanted[*]} " == *" $name "* ]] || continue
  fuzz "$name" "$module" "$test" || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "fuzz: FAILED: ${failed[*]}"
  exit 1
fi
echo "fuzz: ok, ${#wanted[@]} targets"
