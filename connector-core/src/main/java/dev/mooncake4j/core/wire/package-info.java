/**
 * The messages of the side channel and their MessagePack form: that of vLLM 0.33.0's
 * MooncakeConnector, byte for byte, and two small ones of our own.
 */
@NullMarked
package dev.mooncake4j.core.wire;

import org.jspecify.annotations.NullMarked;
