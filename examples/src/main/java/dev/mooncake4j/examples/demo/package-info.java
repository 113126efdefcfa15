/**
 * The main job, to be watched: a prefiller and a decoder in two JVMs, real KV, every byte checked.
 */
@NullMarked
package dev.mooncake4j.examples.demo;

import org.jspecify.annotations.NullMarked;
