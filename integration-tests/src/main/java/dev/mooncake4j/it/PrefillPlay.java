package dev.mooncake4j.it;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.ObjIntConsumer;

/**
 * A prefill that only takes time: chunks of equal length, each of which takes as long as the
 * others. It uses no processor, as one on a device does not.
 *
 * @param requestId the prefiller's request
 * @param tokens of the prompt
 * @param chunks of the prefill, at least 1
 * @param pauseMicros that each takes
 * @param tell whether the connector is told after each
 */
record PrefillPlay(String requestId, int tokens, int chunks, long pauseMicros, boolean tell) {

  /** Begins; {@code chunkOver} is told after each chunk how many are over, on a thread of ours. */
  void start(ObjIntConsumer<PrefillPlay> chunkOver) {
    Thread.ofPlatform()
        .daemon()
        .name("prefill-" + requestId)
        .start(
            () -> {
              long begun = System.nanoTime();
              for (int over = 1; over <= chunks; over++) {
                long end = begun + TimeUnit.MICROSECONDS.toNanos(over * pauseMicros);
                for (long left = end - System.nanoTime(); left > 0; ) {
                  LockSupport.parkNanos(left);
                  left = end - System.nanoTime();
                }
                chunkOver.accept(this, over);
              }
            });
  }

  /** Tokens that are computed after so many chunks. */
  int tokensAfter(int over) {
    return (int) ((long) tokens * over / chunks);
  }
}
