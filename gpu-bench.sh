#!/usr/bin/env bash
# Measures transfers between two JVMs with their KV cache on one GPU.
#
#   ./gpu-bench.sh [OPTIONS]       builds, fetches the engine for CUDA 13 and runs it here
#   ./gpu-bench.sh --pack FILE     packs all of it, a Java runtime included, for a machine without
#                                  JDK and network: unpack it there and start run.sh
#   ./gpu-bench.sh --host-memory   a rehearsal without a GPU, in host memory over tcp
#
# Options: those of run.sh, which stand at the end of --help. Results go to target/bench/gpu unless --out says
# otherwise; docs/performance.md says what they mean.
set -uo pipefail
ROOT=$(unset CDPATH && cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck disable=SC2034 # what the sourced script builds
M4J_MODULE=benchmarks
. "$ROOT/scripts/setup.sh"
. "$ROOT/scripts/examples.sh"

CUDA_PACKAGE=mooncake-transfer-engine-cuda13
TARGET=$ROOT/benchmarks/target
HOME_FOLDER=$TARGET/gpu-bench
PACK=
HOST=no
OUT=no
arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help)
      sed -n '2,10s/^# \{0,1\}//p' "$ROOT/gpu-bench.sh"
      exec "$ROOT/benchmarks/src/main/pack/run.sh" --help
      ;;
    --pack)
      PACK=${2:-}
      [ -n "$PACK" ] || { echo "gpu-bench: --pack needs a file" >&2; exit 2; }
      mkdir -p "$(dirname "$PACK")" || exit 2
      shift
      ;;
    --host-memory)
      HOST=yes
      arguments+=("$1")
      ;;
    --out | --out=*)
      OUT=yes
      arguments+=("$1")
      ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

say() { echo "gpu-bench: $*" >&2; }

m4j_setup all || exit 1
m4j_build_examples gpu-bench || exit 1

# The engine for CUDA 13, of one fixed Python version: no Python is used, the file is opened by a JVM.
fetch_cuda_engine() { # folder
  local work python=python3
  [ -s "$1/mooncake/engine.so" ] && return 0
  say "downloading $CUDA_PACKAGE"
  work=$(mktemp -d "$TARGET/cuda-engine.XXXXXX") || return 1
  if ! python3 -c 'import pip' 2>/dev/null; then
    python3 -m venv "$work/venv" >&2 && python=$work/venv/bin/python
  fi
  "$python" -m pip -q --disable-pip-version-check download --no-deps --only-binary=:all: \
    --implementation cp --python-version 3.12 --abi cp312 --platform manylinux_2_28_x86_64 \
    --require-hashes -r "$ROOT/scripts/cuda-engine-requirements.txt" --dest "$work/wheel" >&2 &&
    "$python" -m zipfile -e "$work"/wheel/*.whl "$work/unpacked" &&
    mkdir -p "$1" && cp -R "$work/unpacked/." "$1/"
  local code=$?
  rm -rf "$work"
  return $code
}

# The names that a library and those beside it need, by its own folders alone.
copy_engine() { # from, to
  local library folder
  mkdir -p "$2/mooncake"
  cp "$1/mooncake/engine.so" "$2/mooncake/"
  # Its own libraries are those that resolve inside the wheel.
  ldd "$1/mooncake/engine.so" | sed -n 's/.* => \([^ ]*\) (.*/\1/p' | while read -r library; do
    case "$(readlink -f "$library")" in
      "$(readlink -f "$1")"/*)
        folder=$(basename "$(dirname "$(readlink -f "$library")")")
        mkdir -p "$2/$folder" && cp -L "$library" "$2/$folder/"
        ;;
    esac
  done
  cp -R "$1"/*.dist-info "$2/" 2>/dev/null || true
}

# Copies of what the engine needs of the system beside glibc, the compiler's libraries and CUDA.
copy_fallback() { # engine, to
  local name path
  mkdir -p "$2"
  ldd "$1" | sed -n 's/^[[:space:]]*\([^ ]*\) => \(\/[^ ]*\) (.*/\1 \2/p' | while read -r name path; do
    case "$name" in
      ld-linux* | libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | libresolv.so* | \
        libstdc++.so* | libgcc_s.so* | libcuda.so* | libcudart.so*) continue ;;
    esac
    case "$(readlink -f "$path")" in "$HOME_FOLDER"/*) ;; *) cp -L "$path" "$2/$name" ;; esac
  done
}

assemble() {
  rm -rf "$HOME_FOLDER"
  mkdir -p "$HOME_FOLDER/lib"
  cp "$ROOT/benchmarks/src/main/pack/run.sh" "$HOME_FOLDER/"
  (cd "$TARGET/classes" && "$JAVA_HOME/bin/jar" --create --file "$HOME_FOLDER/lib/benchmarks.jar" \
    dev/mooncake4j/bench/gpu dev/mooncake4j/bench/measure) || return 1
  local jar
  for jar in "$TARGET"/lib/*.jar; do
    case "$(basename "$jar")" in
      jmh-* | jopt-simple* | commons-math* | integration-tests-* | connector-testkit-* | examples-* | metrics-* | \
        micrometer-* | picocli-* | HdrHistogram* | LatencyUtils*) ;;
      *) cp "$jar" "$HOME_FOLDER/lib/" ;;
    esac
  done
  if [ "$HOST" = no ] || [ -n "$PACK" ]; then
    fetch_cuda_engine "$TARGET/cuda-engine" || {
      say "no engine: $CUDA_PACKAGE could not be fetched from PyPI"
      return 1
    }
    copy_engine "$TARGET/cuda-engine" "$HOME_FOLDER/engine"
  fi
}

add_runtime() {
  local modules
  # The last line: warnings come before it, on standard output too.
  modules=$("$JAVA_HOME/bin/jdeps" --multi-release 25 --ignore-missing-deps --print-module-deps \
    "$HOME_FOLDER"/lib/*.jar | tail -n 1)
  [[ $modules =~ ^[a-z0-9.,]+$ ]] || { say "jdeps does not tell the modules: $modules"; return 1; }
  # Not compressed: xz does it better.
  say "linking a Java runtime of $modules"
  "$JAVA_HOME/bin/jlink" --add-modules "$modules" --strip-debug --compress zip-0 \
    --no-header-files --no-man-pages --output "$HOME_FOLDER/runtime"
}

assemble || exit 1
if [ -n "$PACK" ]; then
  add_runtime || exit 1
  copy_fallback "$HOME_FOLDER/engine/mooncake/engine.so" "$HOME_FOLDER/fallback"
  (cd "$HOME_FOLDER" && find . -type f -printf '%10s %P\n' | sort -k2 >"$TARGET/gpu-bench-contents.txt")
  mv "$TARGET/gpu-bench-contents.txt" "$HOME_FOLDER/CONTENTS"
  say "compressing"
  tar -C "$TARGET" --owner=0 --group=0 -cf - gpu-bench | xz -6 -T2 >"$PACK" || exit 1
  (cd "$(dirname "$PACK")" && sha256sum "$(basename "$PACK")" >"$(basename "$PACK").sha256")
  sort -rn "$HOME_FOLDER/CONTENTS" | head -n 25
  say "$(wc -l <"$HOME_FOLDER/CONTENTS") files, $(awk '{ sum += $1 } END { print sum }' "$HOME_FOLDER/CONTENTS") bytes unpacked"
  cat "$PACK.sha256"
  bytes=$(stat -c %s "$PACK")
  say "packed $PACK bytes=$bytes"
  [ "$bytes" -lt $((60 << 20)) ] || { say "$PACK has more than 60 MiB"; exit 1; }
  exit 0
fi

ln -s "$JAVA_HOME" "$HOME_FOLDER/runtime"
[ "$OUT" = yes ] || arguments+=(--out "$ROOT/target/bench/gpu")
[ "$HOST" = no ] || arguments+=(--engine "$MOONCAKE4J_ENGINE_LIBRARY")
unset MOONCAKE4J_ENGINE_LIBRARY
exec "$HOME_FOLDER/run.sh" "${arguments[@]}"
