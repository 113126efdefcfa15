/**
 * The prefiller's half of a worker: transfers announced and ready, the pulls that ask for them, and
 * the engine threads that write.
 */
@NullMarked
package dev.mooncake4j.core.producer;

import org.jspecify.annotations.NullMarked;
