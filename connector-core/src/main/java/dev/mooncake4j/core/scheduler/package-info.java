/**
 * The scheduler side: pure bookkeeping of which requests are to be fetched or sent, without I/O,
 * threads or clocks.
 */
@NullMarked
package dev.mooncake4j.core.scheduler;

import org.jspecify.annotations.NullMarked;
