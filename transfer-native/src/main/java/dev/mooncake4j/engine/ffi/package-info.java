/**
 * The engine's C API as jextract bound it: generated, not to be edited, and called only by this
 * module. See {@code jextract/README.md} for how it is made.
 *
 * <p>Not null-marked: the generated code is not ours to annotate.
 */
@NullUnmarked
package dev.mooncake4j.engine.ffi;

import org.jspecify.annotations.NullUnmarked;
