/** Draws the dashboard and the way of one request, from a scrape and recordings of real servers. */
@NullMarked
package dev.mooncake4j.examples.pictures;

import org.jspecify.annotations.NullMarked;
