/**
 * The decoder's half of a worker: the pulls under way, the prefiller ranks they ask, and what the
 * answers make of them.
 */
@NullMarked
package dev.mooncake4j.core.consumer;

import org.jspecify.annotations.NullMarked;
