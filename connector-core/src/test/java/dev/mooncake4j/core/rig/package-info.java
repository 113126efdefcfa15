/**
 * What the tests of the core stand on: side channels, bootstrap server and memory in one process,
 * driven step by step by the test, with no threads and no waiting.
 */
@NullMarked
package dev.mooncake4j.core.rig;

import org.jspecify.annotations.NullMarked;
