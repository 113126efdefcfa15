/**
 * From vLLM's {@code --kv-transfer-config} JSON to a configuration, and the configuration's log.
 */
@NullMarked
package dev.mooncake4j.core.config;

import org.jspecify.annotations.NullMarked;
