/**
 * The bootstrap server, at which prefillers register their workers, and its client.
 *
 * <p>{@link dev.mooncake4j.bootstrap.BootstrapServer} runs in the process of a prefiller's first
 * rank; {@link dev.mooncake4j.bootstrap.BootstrapClient} registers a prefiller's ranks there and
 * asks there on behalf of a decoder. Both speak the HTTP of vLLM's MooncakeConnector, so either end
 * may be vLLM's.
 */
@NullMarked
package dev.mooncake4j.bootstrap;

import org.jspecify.annotations.NullMarked;
