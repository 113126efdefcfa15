/** Which prefiller ranks an engine id stands for: asked of its bootstrap server, and remembered. */
@NullMarked
package dev.mooncake4j.core.discovery;

import org.jspecify.annotations.NullMarked;
