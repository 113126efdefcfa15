/** The main job with a real model, to be watched: prefiller, decoder and proxy in three JVMs. */
@NullMarked
package dev.mooncake4j.examples.jlama.demo;

import org.jspecify.annotations.NullMarked;
