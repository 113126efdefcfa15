/**
 * Finds the engine's library, opens it and binds to it: where it is looked for, what the dynamic
 * linker says, the adapter for the library of the Python wheel, and the environment that the engine
 * reads.
 */
@NullMarked
package dev.mooncake4j.engine.load;

import org.jspecify.annotations.NullMarked;
