#!/usr/bin/env bash
# Runs the benchmark that lies beside this file; needs neither a JDK nor a network.
#
#   ./run.sh --probe      which transports work here, some 20 s
#   ./run.sh --quick      a minute
#   ./run.sh --out DIR    everything, some six minutes
#   ./run.sh --explore    what bounds scattered copies
#   ./run.sh --host-memory --engine FILE    without a GPU: a rehearsal over tcp with another engine
set -u
HERE=$(unset CDPATH && cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
ENGINE=$HERE/engine/mooncake/engine.so
BARE_MACHINE=no

say() { echo "gpu-bench: $*" >&2; }

wants=("$@")
for ((i = 0; i < ${#wants[@]}; i++)); do
  case "${wants[i]}" in
    --engine) ENGINE=${wants[i + 1]:-} ;;
    --host-memory) BARE_MACHINE=yes ;;
    --help | -h)
      sed -n '2,8s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
  esac
done
if [ ! -r "$ENGINE" ]; then
  say "no engine at ${ENGINE:-the empty name}: give --engine FILE"
  exit 2
fi

# --- Libraries -----------------------------------------------------------------------------------

PATHS=${LD_LIBRARY_PATH:-}
add_folder() { case ":$PATHS:" in *":$1:"*) ;; *) PATHS=${PATHS:+$PATHS:}$1 ;; esac; }

missing() { LD_LIBRARY_PATH=$PATHS ldd "$ENGINE" 2>/dev/null | sed -n 's/^[[:space:]]*\([^ ]*\) => not found.*/\1/p' | sort -u; }

# Where CUDA's runtime and the driver's library usually lie.
cuda_folders() {
  ls -d /usr/local/cuda*/lib64 /usr/local/cuda*/targets/x86_64-linux/lib /usr/local/nvidia/lib64 \
    /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib/wsl/lib /usr/local/cuda*/compat 2>/dev/null
  if command -v python3 >/dev/null; then
    python3 - <<'PYTHON' 2>/dev/null
import glob, site, sys, sysconfig
roots = set(site.getsitepackages() + [site.getusersitepackages(), sysconfig.get_paths()["purelib"]] + sys.path)
for root in sorted(r for r in roots if r):
    for folder in sorted(glob.glob(root + "/nvidia/*/lib") + glob.glob(root + "/torch/lib")):
        print(folder)
PYTHON
  fi
  ls -d /opt/*/lib/python3*/site-packages/nvidia/*/lib /opt/conda/lib 2>/dev/null
}

for library in $(missing); do
  case "$library" in
    libcudart.so.* | libcuda.so.1 | libnv*)
      while read -r folder; do
        if [ -e "$folder/$library" ]; then
          say "$library is in $folder"
          add_folder "$folder"
          break
        fi
      done < <(cuda_folders)
      ;;
  esac
done

# What the system lacks beside CUDA comes with the archive, each library only where it is missing.
USED=${TMPDIR:-/tmp}/gpu-bench-libraries.$$
trap 'rm -rf "$USED"' EXIT
for _ in 1 2 3 4 5 6; do
  added=no
  for library in $(missing); do
    if [ -e "$HERE/fallback/$library" ]; then
      mkdir -p "$USED" && ln -sf "$HERE/fallback/$library" "$USED/$library"
      say "$library is not on this system: the archive's copy is used"
      add_folder "$USED"
      added=yes
    fi
  done
  [ "$added" = yes ] || break
done

if ! command -v ldd >/dev/null; then
  say "no ldd here: what is missing shows when the engine is opened"
else
  left=$(missing)
  if [ -n "$left" ]; then
    for library in $left; do
      case "$library" in
        libcuda.so.1) say "missing $library: NVIDIA's driver is not visible here (nvidia-smi?)" ;;
        libcudart.so.*) say "missing $library: install CUDA's runtime of that version, or put its folder on LD_LIBRARY_PATH" ;;
        *) say "missing $library: install the package that has it" ;;
      esac
    done
    say "the engine will not open without: ${left//$'\n'/ }"
  fi
  LD_LIBRARY_PATH=$PATHS ldd "$ENGINE" 2>&1 | grep -E 'version .* not found' | sed 's/^/gpu-bench: /' >&2
fi

if [ "$BARE_MACHINE" = no ] && command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,memory.total,memory.free,mig.mode.current --format=csv,noheader || true
fi
say "$(uname -sr), $(ldd --version 2>/dev/null | head -n 1), $(nproc) processors"

export LD_LIBRARY_PATH=$PATHS
export MOONCAKE4J_ENGINE_LIBRARY=$ENGINE
# As many hardware queues as there may be submitting threads; the driver's default is 8.
export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-32}
"$HERE/runtime/bin/java" -Xmx512m -cp "$HERE/lib/*" dev.mooncake4j.bench.gpu.GpuBench "$@"
exit $?
