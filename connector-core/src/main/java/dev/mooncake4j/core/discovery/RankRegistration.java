package dev.mooncake4j.core.discovery;

/**
 * What one prefiller rank registers.
 *
 * @param engineId its engine
 * @param dpRank data-parallel rank
 * @param tpRank tensor-parallel rank
 * @param ppRank pipeline stage
 * @param address of its side channel, {@code tcp://host:port}
 */
public record RankRegistration(
    String engineId, int dpRank, int tpRank, int ppRank, String address) {}
