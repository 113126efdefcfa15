/**
 * Makes the folder that Jlama loads, in the layout of Hugging Face, out of a GGUF file: once,
 * before the first server is started.
 */
@NullMarked
package dev.mooncake4j.examples.jlama.convert;

import org.jspecify.annotations.NullMarked;
