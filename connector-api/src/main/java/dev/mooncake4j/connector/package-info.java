/**
 * The connector's API: what a Java inference server calls to hand finished KV-cache blocks from a
 * prefiller to a decoder.
 *
 * <p>Start at {@link dev.mooncake4j.connector.KvConnector}. The scheduler side ({@link
 * dev.mooncake4j.connector.KvScheduler}) is pure bookkeeping and exists once per engine; the worker
 * side ({@link dev.mooncake4j.connector.KvWorker}) exists once per rank and owns memory, sockets
 * and threads. {@link dev.mooncake4j.connector.StepPlan} goes from the first to the second at each
 * step, {@link dev.mooncake4j.connector.StepResult} comes back.
 */
@NullMarked
package dev.mooncake4j.connector;

import org.jspecify.annotations.NullMarked;
