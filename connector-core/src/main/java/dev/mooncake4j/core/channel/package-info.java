/**
 * The side channel's sockets behind a port of ours: nothing of the ZeroMQ library shows outside
 * this package.
 */
@NullMarked
package dev.mooncake4j.core.channel;

import org.jspecify.annotations.NullMarked;
