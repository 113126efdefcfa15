#!/usr/bin/env bash
# Builds the Jlama server, and has its model ready.
#
# Sourced by the scripts that run it, after scripts/setup.sh and m4j_setup; they then call
# "m4j_prepare_jlama NAME ARGUMENTS", and find M4J_EXAMPLES_PATH and M4J_JLAMA_FLAGS set.

# shellcheck disable=SC2034 # for scripts/examples.sh
M4J_MODULE=examples/jlama-server
# shellcheck source=scripts/examples.sh
. "$M4J_SCRIPTS/examples.sh"
# shellcheck source=scripts/model.sh
. "$M4J_SCRIPTS/model.sh"

# Jlama computes with the vector API, which is an incubator module still, and looks into Unsafe.
M4J_JLAMA_FLAGS=(--add-modules jdk.incubator.vector --enable-native-access=ALL-UNNAMED
  --sun-misc-unsafe-memory-access=allow -Xmx1g
  -Dorg.slf4j.simpleLogger.showDateTime=true
  -Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd\'T\'HH:mm:ss.SSSXXX
  -Dorg.slf4j.simpleLogger.showThreadName=false -Dorg.slf4j.simpleLogger.showShortLogName=true
  -Dorg.slf4j.simpleLogger.log.com.github.tjake.jlama=error)
if [ -t 2 ]; then M4J_JLAMA_FLAGS+=(-Djlama.progress=true); fi

# With a model of the caller's own, or for the help alone, none is fetched.
m4j_prepare_jlama() { # name, the program's arguments
  local name=$1
  shift
  case " $* " in
    *" --model"* | *" --help "* | *" -h "*)
      m4j_build_examples "$name"
      return
      ;;
  esac
  m4j_fetch_model || return 1
  m4j_build_examples "$name" || return 1
  m4j_convert_model "$M4J_EXAMPLES_PATH" || return 1
  M4J_JLAMA_FLAGS+=("-Djlama.model=$M4J_MODEL")
}
