package dev.mooncake4j.engine.load;

import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

/**
 * Keeps native calls that may take long off virtual threads: such a call would hold the carrier
 * that it runs on, and the linker's messages belong to an OS thread.
 */
public final class OwnThread {
  private OwnThread() {}

  /**
   * Runs the work on the calling thread, or where that is virtual on a platform thread, and waits.
   *
   * @throws RuntimeException what the work threw
   */
  public static <T> T call(String name, Supplier<T> work) {
    if (!Thread.currentThread().isVirtual()) {
      return work.get();
    }
    AtomicReference<Supplier<T>> outcome = new AtomicReference<>();
    Thread thread =
        Thread.ofPlatform()
            .daemon()
            .name(name)
            .start(
                () -> {
                  try {
                    T result = work.get();
                    outcome.set(() -> result);
                  } catch (RuntimeException | Error e) {
                    outcome.set(
                        () -> {
                          throw e;
                        });
                  }
                });
    boolean interrupted = false;
    while (true) {
      try {
        thread.join();
        break;
      } catch (InterruptedException e) {
        // The native work cannot be stopped half-way; the interrupt is handed on afterwards.
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
    Supplier<T> ended = outcome.get();
    if (ended == null) {
      throw new IllegalStateException("thread=" + name + " ended with an error: see its log");
    }
    return ended.get();
  }

  /** {@link #call} for work without a result. */
  public static void run(String name, Runnable work) {
    Boolean ran =
        call(
            name,
            () -> {
              work.run();
              return Boolean.TRUE;
            });
    assert ran;
  }
}
