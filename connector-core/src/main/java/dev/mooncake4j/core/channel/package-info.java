/**
 * The side channel's sockets behind a port of ours: whole messages in, whole messages out.
 *
 * <p>{@link dev.mooncake4j.core.channel.SideChannel} is the port; {@link
 * dev.mooncake4j.core.channel.ZmtpSideChannel} speaks ZeroMQ's protocol, ZMTP 3.1 with the NULL
 * mechanism, as ROUTER and as DEALER: what vLLM's MooncakeConnector has on its side. It is written
 * out here, on plain NIO, because a side channel has to outlive whatever a peer sends. (JeroMQ
 * 0.6.0 does not: a frame that declares 2^64-1 bytes keeps its I/O thread busy for good, and no
 * other peer is served any more.) JeroMQ is what the tests talk to.
 *
 * <p>What the messages mean is not known here.
 */
@NullMarked
package dev.mooncake4j.core.channel;

import org.jspecify.annotations.NullMarked;
