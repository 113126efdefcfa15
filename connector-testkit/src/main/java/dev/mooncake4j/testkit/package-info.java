@NullMarked
package dev.mooncake4j.testkit;

import org.jspecify.annotations.NullMarked;
