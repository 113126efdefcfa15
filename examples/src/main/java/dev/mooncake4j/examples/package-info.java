/** Programs that show the connector at work. */
@NullMarked
package dev.mooncake4j.examples;

import org.jspecify.annotations.NullMarked;
