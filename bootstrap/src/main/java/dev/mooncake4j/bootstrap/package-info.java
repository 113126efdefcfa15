@NullMarked
package dev.mooncake4j.bootstrap;

import org.jspecify.annotations.NullMarked;
