/** Where every request ends: once, with its outcome, on the way to the server. */
@NullMarked
package dev.mooncake4j.core.results;

import org.jspecify.annotations.NullMarked;
