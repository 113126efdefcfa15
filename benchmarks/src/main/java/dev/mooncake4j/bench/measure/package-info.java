/**
 * What both benchmarks are made of: processes that measure, told commands and answering with
 * events, and the values that come of it. It knows neither of the two: {@code gpu-bench.sh} packs
 * it without {@code dev.mooncake4j.bench}.
 */
@NullMarked
package dev.mooncake4j.bench.measure;

import org.jspecify.annotations.NullMarked;
