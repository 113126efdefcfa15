/** Transfers between two JVMs with their caches on one GPU: what {@code gpu-bench.sh} runs. */
@NullMarked
package dev.mooncake4j.bench.gpu;

import org.jspecify.annotations.NullMarked;
