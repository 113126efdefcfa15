@NullMarked
package dev.mooncake4j.metrics;

import org.jspecify.annotations.NullMarked;
