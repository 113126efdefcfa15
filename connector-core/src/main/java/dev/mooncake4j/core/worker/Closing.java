package dev.mooncake4j.core.worker;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Lets those who close what is being closed wait for its end. A process that is told to end closes
 * from a shutdown hook, while its main thread may be closing too: a hook that returned at once
 * would have the process end before the last answers are sent.
 */
public final class Closing {
  /** Longer than closing takes; bounds the wait all the same. */
  private static final long WAIT_SECONDS = 20;

  private static final Logger LOG = LoggerFactory.getLogger(Closing.class);

  private final CountDownLatch end = new CountDownLatch(1);

  /** Nothing has been closed yet. */
  public Closing() {}

  /** Closing is done. */
  public void ended() {
    end.countDown();
  }

  /** Waits until closing is done, for a bounded time; an interrupt ends the wait. */
  public void awaitEnd() {
    try {
      boolean ended = end.await(WAIT_SECONDS, TimeUnit.SECONDS);
      LOG.debug("waited for the end of closing, ended={}", ended);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
