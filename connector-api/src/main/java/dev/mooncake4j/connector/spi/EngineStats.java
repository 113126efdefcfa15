package dev.mooncake4j.connector.spi;

/**
 * What an engine holds at a moment.
 *
 * @param liveBatches batches submitted and not yet known to be over; 0 when idle
 * @param descriptorsInFlight descriptors submitted and not yet done; 0 when idle
 * @param registeredRanges pieces of memory registered
 * @param registeredBytes their bytes
 */
public record EngineStats(
    int liveBatches, int descriptorsInFlight, int registeredRanges, long registeredBytes) {}
