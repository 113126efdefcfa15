@NullMarked
package dev.mooncake4j.core;

import org.jspecify.annotations.NullMarked;
