package dev.mooncake4j.bootstrap;

import static org.awaitility.Awaitility.await;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Time-outs and pauses that come when the test says so. */
final class ManualDelayer implements Delayer {

  private record Pending(Duration delay, Runnable task) {}

  private final List<Pending> pending = new CopyOnWriteArrayList<>();

  @Override
  public Runnable after(Duration delay, Runnable task) {
    Pending added = new Pending(delay, task);
    pending.add(added);
    return () -> pending.remove(added);
  }

  /** Waits until something is to be run after just this delay, and runs it. */
  void fire(Duration delay) {
    await("something to be run after " + delay)
        .atMost(Duration.ofSeconds(20))
        .until(() -> pending.stream().anyMatch(p -> p.delay().equals(delay)));
    Pending first =
        pending.stream()
            .filter(p -> p.delay().equals(delay))
            .findFirst()
            .filter(pending::remove)
            .orElseThrow(() -> new AssertionError("called off meanwhile: delay=" + delay));
    first.task().run();
  }

  List<Duration> delays() {
    return pending.stream().map(Pending::delay).toList();
  }
}
