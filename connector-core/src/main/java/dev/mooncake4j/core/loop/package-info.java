/**
 * The event loop that owns all state of one worker: a queue of posted events, one heap of
 * deadlines, and the side channel that it waits on.
 *
 * <p>A thread drives it in production; a test drives it step by step, with its own clock.
 */
@NullMarked
package dev.mooncake4j.core.loop;

import org.jspecify.annotations.NullMarked;
