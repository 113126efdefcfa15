/**
 * A small inference server around Jlama: paged KV cache, prefix cache, a scheduler, an OpenAI
 * endpoint, and the connector where its calls belong.
 *
 * <p>{@link dev.mooncake4j.examples.jlama.server.JlamaServer} starts it; {@code Engine} is the
 * scheduler's loop and {@code ConnectorLink} has all calls of the connector.
 */
@NullMarked
package dev.mooncake4j.examples.jlama.server;

import org.jspecify.annotations.NullMarked;
