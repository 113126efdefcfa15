#!/usr/bin/env bash
# Runs prefillers and decoders under load and kills, stops and cuts them (--help lists the options), or measures
# what a bad decoder does to another (--isolation, and --isolation --help), after setting the machine up (see
# scripts/setup.sh) and, where sources are newer than the last build, building.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
exec </dev/null

# shellcheck source=scripts/setup.sh
. "$root/scripts/setup.sh"
m4j_setup all || exit 1

# shellcheck disable=SC2034 # for scripts/examples.sh
M4J_MODULE=integration-tests
# shellcheck source=scripts/examples.sh
. "$root/scripts/examples.sh"
m4j_build_examples stress || exit 1

# Links can be cut where each peer may have a network namespace of its own, in namespaces for networks and
# mounts that are ours alone and go with us: as root, or where the system lets everybody be root in a
# namespace for users.
own=(unshare --net --mount)
[ "$(id -u)" = 0 ] || own+=(--user --map-root-user)
can_cut() {
  command -v unshare >/dev/null && command -v ip >/dev/null && "${own[@]}" sh -c '
    mount -t tmpfs tmpfs /run && ip link add br0 type bridge && ip netns add probe &&
      ip link add probe0 type veth peer name eth0 netns probe && ip netns exec probe true' >/dev/null 2>&1
}
program=StressMain
if [ "${1-}" = --isolation ]; then
  program=IsolationMain
  shift
fi
links=(--links namespaces)
if ! can_cut; then
  own=()
  links=()
  echo "stress: no network namespaces are to be had (ip and unshare, as root): no link will be cut" >&2
fi

exec ${own[@]+"${own[@]}"} "$JAVA_HOME/bin/java" -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
  -cp "$M4J_EXAMPLES_PATH" "dev.mooncake4j.it.stress.$program" "$@" ${links[@]+"${links[@]}"}
