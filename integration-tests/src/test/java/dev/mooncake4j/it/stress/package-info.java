@NullMarked
package dev.mooncake4j.it.stress;

import org.jspecify.annotations.NullMarked;
