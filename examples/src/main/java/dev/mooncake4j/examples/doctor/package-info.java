/** Looks at what a machine has for transfers, and says what is wrong and what to do. */
@NullMarked
package dev.mooncake4j.examples.doctor;

import org.jspecify.annotations.NullMarked;
