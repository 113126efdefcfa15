/** The optional check that what arrived is what was sent. */
@NullMarked
package dev.mooncake4j.core.integrity;

import org.jspecify.annotations.NullMarked;
