@NullMarked
package dev.mooncake4j.engine;

import org.jspecify.annotations.NullMarked;
