#!/usr/bin/env bash
# Makes the pictures of the documentation, docs/pictures/dashboard.svg and timeline.svg: a prefiller, a decoder
# and a proxy with the real model, some requests at a time for a minute, scraped each second and recorded by
# Flight Recorder. Some three minutes, beside the set-up and the build that ./jlama.sh does.
#
#   scripts/pictures.sh [SECONDS [REQUESTS_AT_A_TIME]]
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
exec </dev/null
case "${1:-}" in -h | --help)
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  exit 0
  ;;
esac

# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
m4j_setup all || exit 1
# shellcheck source=scripts/jlama.sh
. "$root/scripts/jlama.sh"
m4j_prepare_jlama pictures || exit 1
pictures() { "$JAVA_HOME/bin/java" -Xmx256m -cp "$M4J_EXAMPLES_PATH" dev.mooncake4j.examples.pictures.Pictures "$@"; }

work=$(mktemp -d)
pids=()
finish() {
  local code=$?
  trap - EXIT
  if [ ${#pids[@]} -gt 0 ]; then
    kill "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
  fi
  if [ "$code" = 0 ]; then
    rm -rf "$work"
  else
    echo "pictures: failed (exit=$code): the logs are in $work" >&2
  fi
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# All of it stays on this host.
export VLLM_HOST_IP=127.0.0.1

start() { # name, command...: sets "pid"
  local name=$1
  shift
  : >"$work/$name.out" # there from now on: the process opens it when its turn comes
  "$@" >>"$work/$name.out" 2>"$work/$name.log" &
  pid=$!
  pids+=("$pid")
}

# What a server's ready line has behind a word.
await() { # name, pid, sed expression
  local found tries
  for ((tries = 0; tries < 1200; tries++)); do
    found=$(sed -n "$3" "$work/$1.out")
    if [ -n "$found" ]; then
      echo "$found"
      return 0
    fi
    kill -0 "$2" 2>/dev/null || break
    sleep 0.25
  done
  echo "pictures: $1 does not serve; the end of its log:" >&2
  tail -n 5 "$work/$1.log" >&2
  return 1
}

server() { # name, role, engine id
  start "$1" "$root/jlama.sh" --role "$2" --port 0 --bootstrap-port 0 --threads 1 --kv-transfer-config \
    "{\"kv_connector\":\"MooncakeConnector\",\"engine_id\":\"$3\",\"kv_connector_extra_config\":{\"mooncake_protocol\":\"tcp\",\"kv_lease_duration\":30}}"
}

echo "pictures: starting prefiller, decoder and proxy" >&2
server prefiller kv_producer prefiller-1
prefiller=$pid
server decoder kv_consumer decoder-1
decoder=$pid
prefiller_url=$(await prefiller "$prefiller" 's/.*ready on \([^ ]*\).*/\1/p')
bootstrap_port=$(sed -n 's/.*bootstrap=.*:\([0-9]*\).*/\1/p' "$work/prefiller.out")
decoder_url=$(await decoder "$decoder" 's/.*ready on \([^ ]*\).*/\1/p')
start proxy "$root/proxy.sh" --prefill "$prefiller_url" "$bootstrap_port" --decode "$decoder_url" --port 0
front=$(await proxy "$pid" 's/.*listening on \([^ ]*\).*/\1/p')

for each in prefiller decoder; do
  "$JAVA_HOME/bin/jcmd" "${!each}" JFR.start name=kv filename="$work/$each.jfr" >"$work/$each-jfr.log"
done
echo "pictures: load for ${1:-60} s" >&2
mkdir -p "$root/docs/pictures"
pictures dashboard --front "$front" --scrape "prefiller=$prefiller_url/metrics" --scrape "decoder=$decoder_url/metrics" \
  --seconds "${1:-60}" --parallel "${2:-4}" --max-tokens 12 --dashboard "$root/docs/grafana/mooncake4j-dashboard.json" \
  --requests "$work/requests" --out "$root/docs/pictures/dashboard.svg"
for each in prefiller decoder; do
  "$JAVA_HOME/bin/jcmd" "${!each}" JFR.stop name=kv >>"$work/$each-jfr.log"
done
pictures timeline --jfr "$work/prefiller.jfr" --jfr "$work/decoder.jfr" --proxy-log "$work/proxy.log" \
  --requests "$work/requests" --out "$root/docs/pictures/timeline.svg"
