/** Both halves of the protocol under random schedules of what servers and networks do. */
@NullMarked
package dev.mooncake4j.core.schedules;

import org.jspecify.annotations.NullMarked;
