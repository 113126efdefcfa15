/** Two JVMs and the real engine: what only shows between processes. */
@NullMarked
package dev.mooncake4j.it;

import org.jspecify.annotations.NullMarked;
