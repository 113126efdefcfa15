/**
 * Moves bytes with the native Mooncake transfer engine.
 *
 * <p>{@link dev.mooncake4j.engine.NativeTransferEngineProvider} opens engines, and {@link
 * dev.mooncake4j.engine.MooncakeNative} tells whether that can work here.
 */
@NullMarked
package dev.mooncake4j.engine;

import org.jspecify.annotations.NullMarked;
