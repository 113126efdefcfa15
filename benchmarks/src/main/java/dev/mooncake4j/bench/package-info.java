/**
 * The benchmarks that {@code ./bench.sh} runs: planning, one request, many at once, the control
 * plane and memory, ours beside vLLM's and beside the bare engine.
 */
@NullMarked
package dev.mooncake4j.bench;

import org.jspecify.annotations.NullMarked;
