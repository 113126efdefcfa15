/**
 * Which bytes go where: from block ids and two memory layouts to the copies of one request.
 *
 * <p>{@link dev.mooncake4j.core.plan.PeerPlan} is the way in. Everything here is a pure function of
 * its arguments: no I/O, no logging, no state between calls but the scratch that the caller passes
 * in.
 */
@NullMarked
package dev.mooncake4j.core.plan;

import org.jspecify.annotations.NullMarked;
