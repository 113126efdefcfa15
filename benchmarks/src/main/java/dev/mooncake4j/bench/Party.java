package dev.mooncake4j.bench;

/** Who moves the bytes of a measurement. */
enum Party {
  OURS("ours"),
  VLLM("vllm"),
  OURS_TO_VLLM("ours to vllm"),
  VLLM_TO_OURS("vllm to ours"),
  ENGINE_SPINNING("engine, spin"),
  ENGINE_PARKING("engine, park");

  /** Its name in tables and files. */
  final String title;

  Party(String title) {
    this.title = title;
  }

  boolean isEngine() {
    return this == ENGINE_SPINNING || this == ENGINE_PARKING;
  }
}
