/** What a user of the test kit writes, in a package of the user's. */
@NullMarked
package dev.mooncake4j.elsewhere;

import org.jspecify.annotations.NullMarked;
