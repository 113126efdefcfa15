@NullMarked
package dev.mooncake4j.examples;

import org.jspecify.annotations.NullMarked;
