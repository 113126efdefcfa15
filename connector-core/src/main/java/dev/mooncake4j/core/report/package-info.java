/**
 * Observers of transfers that need no metrics library: a summary in the log, and several as one.
 */
@NullMarked
package dev.mooncake4j.core.report;

import org.jspecify.annotations.NullMarked;
