/** One rank's worker: its lifecycle, the thread that drives its loop, and what it reports. */
@NullMarked
package dev.mooncake4j.core.worker;

import org.jspecify.annotations.NullMarked;
