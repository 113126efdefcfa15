package dev.mooncake4j.engine;

import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Threads of one engine that submit parts of long writes, for transports that copy in the thread
 * that submits.
 *
 * <p>Such a transport keeps a stream of the device for each thread, and the stream dies with the
 * thread: the threads are started when first wanted and end with the engine, when no batch of
 * theirs is left. Thread-safe.
 */
final class SubmitLanes implements AutoCloseable {
  /** Transports without threads of their own: what is submitted runs on the submitter's stream. */
  private static final Set<String> COPY_IN_SUBMITTER = Set.of("nvlink_intra", "nvlink");

  private static final Logger LOG = LoggerFactory.getLogger(SubmitLanes.class);

  private static final int MOST_LANES = 64;

  /**
   * On an H200 more were slower: they wait for the driver's lock when they ask for their copies.
   */
  private static final int MOST_LANES_BY_DEFAULT = 8;

  private static final int LARGEST_WINDOW = 1 << 20;

  /** Below this a descriptor costs less than its share of a batch. */
  private static final int SMALLEST_WINDOW = 32;

  private final Settings settings;
  private final ThreadPoolExecutor helpers;

  SubmitLanes(Settings settings, Runnable threadStart) {
    this.settings = settings;
    AtomicInteger number = new AtomicInteger();
    this.helpers =
        new ThreadPoolExecutor(
            Math.max(1, settings.lanes() - 1),
            Math.max(1, settings.lanes() - 1),
            0,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            body ->
                Thread.ofPlatform()
                    .daemon()
                    .name("m4j-engine-submit-" + number.incrementAndGet())
                    .unstarted(
                        () -> {
                          prepare(threadStart);
                          body.run();
                        }));
  }

  private static void prepare(Runnable threadStart) {
    try {
      threadStart.run();
    } catch (RuntimeException e) {
      LOG.warn("the hook of a submitting thread failed; the thread goes on without it", e);
    }
  }

  /**
   * How writes are split.
   *
   * @param lanes threads that submit at a time, the caller's among them; 0 where writes are not
   *     split at all
   * @param window descriptors in one batch, at most
   */
  record Settings(int lanes, int window) {
    private static final Settings NONE = new Settings(0, WriteOperation.WINDOW);

    Settings {
      lanes = Math.clamp(lanes, 0, MOST_LANES);
      window = Math.clamp(window, 1, LARGEST_WINDOW);
    }

    /**
     * Of a transport. The system properties {@code mooncake4j.engine.lanes} and {@code
     * mooncake4j.engine.window} override what the processors suggest.
     */
    static Settings of(String transport) {
      if (!COPY_IN_SUBMITTER.contains(transport)) {
        return NONE;
      }
      int processors = Runtime.getRuntime().availableProcessors();
      return new Settings(
          Integer.getInteger(
              "mooncake4j.engine.lanes", Math.clamp(processors, 1, MOST_LANES_BY_DEFAULT)),
          Integer.getInteger("mooncake4j.engine.window", WriteOperation.WINDOW));
    }

    boolean split() {
      return lanes > 0;
    }

    /** Descriptors in each batch of a write: small enough that every lane gets a few. */
    int windowFor(int descriptors) {
      return Math.min(window, Math.max(SMALLEST_WINDOW, descriptors / (4 * Math.max(1, lanes))));
    }
  }

  Settings settings() {
    return settings;
  }

  /** Asks up to {@code count} threads to help; those that come late find nothing to do. */
  void help(int count, Runnable lane) {
    for (int i = 0; i < count; i++) {
      helpers.execute(lane);
    }
  }

  /** Ends the threads; nothing that they have submitted may be in flight. */
  @Override
  public void close() {
    helpers.shutdown();
  }
}
