#!/usr/bin/env bash
# Measures the connector, beside the bare engine and, with --peer, beside vLLM's own connector (--help says more),
# after setting the machine up (see scripts/setup.sh), building where sources are newer than the last build, and,
# the first time with --peer, installing vLLM as ./interop.sh does.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

usage() {
  cat <<'USAGE'
usage: ./bench.sh [--peer] [--only PART]... [--rounds N] [--blocks N,N...] [--quick]
       ./bench.sh --help

Measures, each party in turn in every round, prints tables and the targets, and leaves the numbers of all rounds in
target/bench/*.json and the targets in target/bench/summary.json.

  --peer         with vLLM's own MooncakeConnector as the peer to compare with; the first time it is installed: 10 GB
  --only PART    planning: from block ids to copies, by JMH
                 one-request: 1 to 2,000 blocks, ours, vLLM's, mixed, and the engine alone
                 many: 8 requests of 64 blocks at once, 32 of 16, 64 of one
                 sending: blocks sent while their prefill goes on
                 control: pulls that move no bytes, and 10,000 leases
                 memory: resident size of the processes, heap allocated for a request
                 ceilings: iperf3 over loopback, and the engine's own benchmark (with --peer)
  --rounds N     measured rounds of each; otherwise 9
  --blocks LIST  sizes for one-request; otherwise 1,8,64,256,2000, which takes 2 GB for each of up to 6 processes
  --quick        3 rounds of 8 and 64 blocks: whether it works, not how fast
USAGE
}

peer=
arguments=()
for argument in "$@"; do
  case "$argument" in
    -h | --help)
      usage
      exit 0
      ;;
    --peer) peer=yes ;;
    *) arguments+=("$argument") ;;
  esac
done

exec </dev/null
# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
m4j_setup all || exit 1

# shellcheck disable=SC2034 # for scripts/examples.sh
M4J_MODULE=benchmarks
# shellcheck source=scripts/examples.sh
. "$root/scripts/examples.sh"
m4j_build_examples bench || exit 1

if ! command -v iperf3 >/dev/null && m4j_may_install; then
  # Without it the figure is left out, which the table says.
  m4j_apt_get install -y --no-install-recommends iperf3 >/dev/null 2>&1 ||
    { m4j_apt_get update && m4j_apt_get install -y --no-install-recommends iperf3; } >/dev/null 2>&1 || true
fi

if [ -n "$peer" ]; then
  python=$("$root/interop.sh" --python) || exit 1
  arguments+=(--vllm-python "$python")
fi

progress=false
[ -t 2 ] && progress=true
exec "$JAVA_HOME/bin/java" -Xmx512m --sun-misc-unsafe-memory-access=allow "-Dbench.progress=$progress" -cp "$M4J_EXAMPLES_PATH" \
  dev.mooncake4j.bench.BenchMain --out "$root/target/bench" --vllm-programs "$root/benchmarks/vllm" ${arguments[@]+"${arguments[@]}"}
