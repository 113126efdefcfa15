package dev.mooncake4j.examples.pictures;

import java.util.List;

/**
 * What all servers said at one moment.
 *
 * @param seconds since the first one
 */
record Snapshot(double seconds, List<Sample> samples) {}
