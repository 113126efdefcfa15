/**
 * The proxy in front of prefillers and decoders: an OpenAI endpoint that has each request prefilled
 * by one server and decoded by another.
 *
 * <p>What it asks of the servers is what vLLM's example proxy for its MooncakeConnector asks, so
 * the servers may be vLLM's, ours, or both.
 */
@NullMarked
package dev.mooncake4j.examples.proxy;

import org.jspecify.annotations.NullMarked;
