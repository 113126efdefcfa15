/**
 * Puts the connector together: what starts when, what is undone when a start fails, what closes in
 * which order.
 */
@NullMarked
package dev.mooncake4j.core;

import org.jspecify.annotations.NullMarked;
