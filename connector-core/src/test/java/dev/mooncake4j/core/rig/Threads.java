package dev.mooncake4j.core.rig;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.awaitility.Awaitility;

/** The connector's own threads, for leak checks. */
public final class Threads {
  private static final Duration BOUND = Duration.ofSeconds(20);

  private final Set<Thread> before;

  private Threads(Set<Thread> before) {
    this.before = before;
  }

  /** Remembers those that there are now. */
  public static Threads now() {
    return new Threads(Thread.getAllStackTraces().keySet());
  }

  /** Names of those of the connector's that have come since, sorted. */
  public List<String> started() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(t -> !before.contains(t))
        .map(Thread::getName)
        .filter(name -> name.startsWith("m4j-"))
        .sorted()
        .toList();
  }

  /** Those whose names begin so. */
  public List<String> started(String prefix) {
    return started().stream().filter(n -> n.startsWith(prefix)).collect(Collectors.toList());
  }

  /** Fails if any of them is still there after a generous time. */
  public void assertEnded() {
    Awaitility.await("threads of the connector's end")
        .atMost(BOUND)
        .until(this::started, List::isEmpty);
  }
}
