#!/bin/sh
# Builds the native parts of this module: build.sh OUTPUT_DIRECTORY [main|test]
#
# main: libmooncake4j_adapter.so and libmooncake4j_python.so, into OUTPUT_DIRECTORY/linux-<machine>.
# test: libraries that the tests load, into OUTPUT_DIRECTORY.
#
# The C++ runtime is linked as a shared library on purpose: the adapter passes strings, vectors and
# exceptions to and from the engine, so both must use the same one.
set -eu

here=$(CDPATH= cd "$(dirname "$0")" && pwd)
module=$(CDPATH= cd "$here/../../.." && pwd)
out=$1
cxx=${CXX:-g++}
flags="-std=c++17 -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror -I$module/jextract"

if ! command -v "$cxx" > /dev/null; then
  echo "error: no C++ compiler $cxx: install one (Debian: apt-get install g++), or name it with CXX" >&2
  exit 1
fi

# build TARGET SOURCE [OPTION...]: compiles SOURCE unless TARGET is newer.
build() {
  target=$1
  source=$2
  shift 2
  if [ "$target" -nt "$source" ] && [ "$target" -nt "$here/build.sh" ] \
    && [ "$target" -nt "$module/jextract/mooncake_transfer_engine.h" ]; then
    return
  fi
  mkdir -p "$(dirname "$target")"
  # shellcheck disable=SC2086 # the flags are words
  "$cxx" $flags -Wl,-soname,"$(basename "$target")" -o "$target.tmp" "$source" "$@"
  mv "$target.tmp" "$target"
  echo "built $target"
}

case ${2:-main} in
  main)
    to=$out/linux-$(uname -m)
    build "$to/libmooncake4j_python.so" "$here/python_data.cpp"
    build "$to/libmooncake4j_adapter.so" "$here/adapter.cpp" -ldl
    ;;
  test)
    tests=$module/src/test/native
    build "$out/libtransfer_engine.so" "$tests/fake_engine.cpp" -pthread
    build "$out/libempty.so" "$tests/empty.cpp"
    build "$out/libpartial.so" "$tests/partial.cpp"
    # A library that needs another one, which no loader finds.
    build "$out/absent/libcudart.so.12" "$tests/empty.cpp"
    build "$out/libneedscuda.so" "$tests/empty.cpp" -Wl,--no-as-needed "$out/absent/libcudart.so.12"
    ;;
  *)
    echo "error: build.sh OUTPUT_DIRECTORY [main|test]" >&2
    exit 1
    ;;
esac
