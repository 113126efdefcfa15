package dev.mooncake4j.examples.proxy;

/**
 * One data-parallel rank of a prefiller: what a request is sent to, and its decoder told of.
 *
 * @param prefiller its server
 * @param dpRank its data-parallel rank
 * @param engineId its engine
 */
record PrefillTarget(Prefiller prefiller, int dpRank, String engineId) {
  @Override
  public String toString() {
    return prefiller.url() + "#" + dpRank;
  }
}
