/** What a request goes through, as events for the JDK's Flight Recorder. */
@NullMarked
package dev.mooncake4j.core.trace;

import org.jspecify.annotations.NullMarked;
