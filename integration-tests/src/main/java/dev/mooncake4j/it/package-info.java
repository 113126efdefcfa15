/**
 * One rank of a prefiller, a decoder or both as a process of its own, driven by JSON lines: {@link
 * dev.mooncake4j.it.PeerMain}. Tests start several and let them talk to each other, or to another
 * implementation of the protocol that takes the same lines.
 */
@NullMarked
package dev.mooncake4j.it;

import org.jspecify.annotations.NullMarked;
