/**
 * Load with faults: {@link dev.mooncake4j.it.stress.StressMain} starts prefillers and decoders as
 * JVMs of their own ({@link dev.mooncake4j.it.stress.StressPeer}), routes requests to them, kills,
 * stops and cuts them off, and adds up what became of every request.
 */
@NullMarked
package dev.mooncake4j.it.stress;

import org.jspecify.annotations.NullMarked;
