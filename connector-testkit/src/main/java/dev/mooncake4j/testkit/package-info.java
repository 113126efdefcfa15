/**
 * What tests of a connector need: an engine that copies within the process and fails on demand, a
 * clock that moves when told, and the contract that every engine is held against.
 */
@NullMarked
package dev.mooncake4j.testkit;

import org.jspecify.annotations.NullMarked;
