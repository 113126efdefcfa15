package dev.mooncake4j.it.stress;

import dev.mooncake4j.it.stress.IsolationMain.Bad;
import dev.mooncake4j.it.stress.Messages.Command;
import dev.mooncake4j.it.stress.Messages.Ended;
import dev.mooncake4j.it.stress.Messages.Outcome;
import dev.mooncake4j.it.stress.Messages.PullJob;
import dev.mooncake4j.it.stress.Messages.Ready;
import dev.mooncake4j.it.stress.Messages.SendJob;
import dev.mooncake4j.it.stress.Messages.State;
import dev.mooncake4j.it.stress.Messages.ToPeer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Latencies of a good decoder with and without a bad one beside it: the driver, one thread. */
final class IsolationRun implements AutoCloseable {
  private static final Duration LIMIT = Duration.ofMinutes(2);
  private static final Duration ARMED = Duration.ofSeconds(10);
  private static final long TICK_NANOS = TimeUnit.MILLISECONDS.toNanos(10);
  private static final int WARM_UP = 300;
  private static final int GOOD_BLOCKS = 4;

  /** Transfers to the bad one in each round with it; half of the prefiller's blocks. */
  private static final int BAD_REQUESTS = 8;

  private static final int BAD_BLOCKS = 64;

  /** Its pulls must have come before its prefills end: else nothing is ever written to it. */
  private static final int PREFILL_MILLIS = 3000;

  private static final int APART_MILLIS = 50;

  private static final double MOST_FACTOR = 2;

  private final IsolationMain.Options options;
  private final Path folder;
  private final Network network;
  private final BlockingQueue<Runnable> inbox = new LinkedBlockingQueue<>();
  private final Fleet fleet;
  private final Peer prefiller;
  private final Peer good;
  private final Peer bad;
  private final int flooderPlace;
  private final Set<Long> badOpen = new HashSet<>();
  private volatile @Nullable Process flooder;
  private long next;
  private @Nullable Ended goodEnd;
  private volatile boolean clean;

  private IsolationRun(IsolationMain.Options options, Path folder) {
    this.options = options;
    this.folder = folder;
    StressOptions peers = new StressOptions(Duration.ZERO, 1, 1, 2, 1, options.namespaces(), false);
    flooderPlace = peers.prefillers() + peers.decoders();
    network = options.namespaces() ? Network.namespaces(flooderPlace + 1) : Network.loopback();
    fleet = new Fleet(peers, network, folder, inbox::add, new Ears());
    prefiller = fleet.prefillers.getFirst();
    good = fleet.decoders.getFirst();
    bad = fleet.decoders.getLast();
  }

  /** Prepares a run; nothing is started yet. */
  static IsolationRun of(IsolationMain.Options options) {
    try {
      return new IsolationRun(options, Files.createTempDirectory("isolation-"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private final class Ears implements Fleet.Listener {
    @Override
    public void ended(Child child, Ended how) {
      if (child == good.child && how.outcome() != Outcome.QUIETED) {
        goodEnd = how;
      } else if (child == bad.child && how.outcome() != Outcome.QUIETED) {
        badOpen.remove(how.n());
      }
    }

    @Override
    public void gone(Child child) {}

    @Override
    public void crashed(Child child, String lastWords) {
      System.out.println("isolation: PROBLEM " + child + " ended by itself: " + lastWords);
    }
  }

  /** The 99th percentiles of the rounds of one sort, and what went wrong. */
  private static final class Sort {
    final List<Double> p50 = new ArrayList<>();
    final List<Double> p99 = new ArrayList<>();

    void add(long... nanos) {
      Arrays.sort(nanos);
      p50.add(nanos[nanos.length / 2] / 1e6);
      p99.add(nanos[(int) Math.ceil(nanos.length * 0.99) - 1] / 1e6);
    }

    /** A moment in which the machine was busy spoils one round, and not this. */
    static double median(List<Double> values) {
      return values.stream().sorted().toList().get(values.size() / 2);
    }
  }

  /** Runs; prints as it goes; returns whether all was within bounds. */
  boolean run() throws InterruptedException {
    List<String> wrong = new ArrayList<>();
    long requests = 0;
    try {
      fleet.all().forEach(fleet::start);
      spin(fleet::allReady, LIMIT, "not all peers got ready");
      fetch(WARM_UP);
      for (Bad kind : options.kinds()) {
        if (kind == Bad.BLACK_HOLE && !network.canCut()) {
          System.out.println(
              "isolation: black-hole: left out, no network namespaces are to be had");
          continue;
        }
        wrong.addAll(compare(kind));
        requests += 2L * options.rounds() * options.pulls();
      }
      fleet.quit();
      spin(fleet::allGone, LIMIT, "not all peers have ended");
      wrong.addAll(fleet.badEnds());
    } catch (IllegalStateException e) {
      wrong.add(String.valueOf(e.getMessage()));
    }
    clean = wrong.isEmpty();
    System.out.println(
        clean
            ? "isolation: ok, requests=" + requests
            : "isolation: FAILED " + String.join("; ", wrong) + "; see " + folder);
    return clean;
  }

  /** Rounds without and with one kind of bad decoder, in turn. */
  private List<String> compare(Bad kind) throws InterruptedException {
    Sort without = new Sort();
    Sort with = new Sort();
    for (int round = 0; round < options.rounds(); round++) {
      without.add(fetch(options.pulls()));
      begin(kind);
      with.add(fetch(options.pulls()));
      int hanging = kind == Bad.FLOODER ? 0 : hanging();
      end(kind);
      System.out.printf(
          "isolation: %s round %d: without p50=%.1f ms p99=%.1f ms, with p50=%.1f ms p99=%.1f ms%s%n",
          kind.text(),
          round + 1,
          without.p50.getLast(),
          without.p99.getLast(),
          with.p50.getLast(),
          with.p99.getLast(),
          kind == Bad.FLOODER ? "" : ", hanging=" + hanging);
    }
    double before = Sort.median(without.p99);
    double after = Sort.median(with.p99);
    System.out.printf(
        "isolation: %s: p99 without=%.1f ms with=%.1f ms factor=%.2f%n",
        kind.text(), before, after, after / before);
    Duration bound = options.bound();
    if (bound != null) {
      double worst = with.p99.stream().max(Comparator.naturalOrder()).orElseThrow();
      return worst <= bound.toMillis()
          ? List.of()
          : List.of(kind.text() + " p99=" + worst + " ms, bound=" + bound.toMillis() + " ms");
    }
    return after <= MOST_FACTOR * before
        ? List.of()
        : List.of(String.format("%s factor=%.2f, at most 2", kind.text(), after / before));
  }

  /** Good requests, one after another: the nanoseconds of each. */
  private long[] fetch(int count) throws InterruptedException {
    long[] took = new long[count];
    for (int i = 0; i < count; i++) {
      goodEnd = null;
      long start = System.nanoTime();
      request(good, GOOD_BLOCKS, 0);
      spin(() -> goodEnd != null, LIMIT, "a good request has not ended");
      took[i] = System.nanoTime() - start;
      Ended end = goodEnd;
      if (end == null || end.outcome() != Outcome.DONE || end.wrong() > 0) {
        throw new IllegalStateException("a good request ended as " + end);
      }
    }
    return took;
  }

  private long request(Peer decoder, int blocks, int prefillMillis) {
    long n = next++;
    String id = "x-" + n;
    Ready at = prefiller.ready;
    if (at == null || at.bootstrap() == null) {
      throw new IllegalStateException("the prefiller is not ready");
    }
    tell(
        prefiller,
        new ToPeer(
            Command.JOBS,
            List.of(new SendJob(n, id, blocks, true, prefillMillis, false, -1)),
            List.of()));
    tell(
        decoder,
        new ToPeer(
            Command.JOBS,
            List.of(),
            List.of(
                new PullJob(
                    n, id, at.engineId(), at.bootstrap(), blocks, 0, true, 0, false, -1, -1))));
    return n;
  }

  private static void tell(Peer peer, ToPeer message) {
    Child child = peer.child;
    if (child != null) {
      child.tell(message);
    }
  }

  private void begin(Bad kind) throws InterruptedException {
    if (kind == Bad.FLOODER) {
      startFlooder();
      return;
    }
    for (int i = 0; i < BAD_REQUESTS; i++) {
      // One after another: those that are asked for, or get ready, in one step are one transfer,
      // on one engine thread.
      badOpen.add(request(bad, BAD_BLOCKS, PREFILL_MILLIS + APART_MILLIS * i));
      int waiting = i + 1;
      await("pulls of the bad decoder wait", state -> state.waitingPulls() == waiting);
    }
    if (kind == Bad.STOPPED) {
      signal("STOP");
    } else {
      network.cut(prefiller.index, bad.index);
    }
    await("writes to it are under way", state -> state.queuedTransfers() == BAD_REQUESTS);
  }

  /** Transfers to the bad decoder that are still under way. */
  private int hanging() throws InterruptedException {
    await("figures have come", state -> true);
    State state = prefiller.state;
    return state == null ? 0 : state.queuedTransfers();
  }

  /** Asks the prefiller for its figures until they are so. */
  private void await(String what, Predicate<State> until) throws InterruptedException {
    prefiller.state = null;
    tell(prefiller, ToPeer.of(Command.STATE));
    spin(
        () -> {
          State state = prefiller.state;
          if (state == null) {
            return false;
          }
          if (until.test(state)) {
            return true;
          }
          prefiller.state = null;
          tell(prefiller, ToPeer.of(Command.STATE));
          return false;
        },
        ARMED,
        "not all " + what);
  }

  private void end(Bad kind) throws InterruptedException {
    switch (kind) {
      case FLOODER -> stopFlooder();
      case STOPPED -> signal("CONT");
      case BLACK_HOLE -> network.heal(prefiller.index, bad.index);
    }
    // Done, failed or given up: what counts here is that the next round begins without them.
    spin(badOpen::isEmpty, LIMIT, "requests of the bad decoder have not ended");
  }

  private void signal(String signal) {
    Child child = bad.child;
    if (child != null) {
      child.signal(signal);
    }
  }

  /** At the least priority: it is to take the prefiller's time, and not the machine's. */
  private void startFlooder() throws InterruptedException {
    Ready at = prefiller.ready;
    List<String> command = new ArrayList<>(network.runIn(flooderPlace));
    command.addAll(
        List.of(
            "nice",
            "-n",
            "19",
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xmx64m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            System.getProperty(
                "surefire.test.class.path", System.getProperty("java.class.path", "")),
            Flooder.class.getName(),
            String.valueOf(at == null ? null : at.bootstrap())));
    try {
      Process process =
          new ProcessBuilder(command)
              .redirectError(folder.resolve("flooder-stderr").toFile())
              .start();
      flooder = process;
      BufferedReader said = process.inputReader(StandardCharsets.UTF_8);
      String line = said.readLine();
      if (!"flooding".equals(line)) {
        throw new IllegalStateException("the flooder said " + line);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void stopFlooder() {
    Process process = flooder;
    if (process == null) {
      return;
    }
    try {
      process.getOutputStream().close();
      System.out.println("isolation: flooder " + process.inputReader().readLine());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } finally {
      process.destroyForcibly();
    }
  }

  /** Turns the loop until something is so. */
  private void spin(BooleanSupplier until, Duration limit, String otherwise)
      throws InterruptedException {
    long end = System.nanoTime() + limit.toNanos();
    while (!until.getAsBoolean()) {
      if (System.nanoTime() - end > 0) {
        throw new IllegalStateException(otherwise + " within " + limit.toSeconds() + " s");
      }
      if (fleet.crashes() > 0) {
        throw new IllegalStateException("a process ended by itself");
      }
      Runnable input = inbox.poll(TICK_NANOS, TimeUnit.NANOSECONDS);
      for (; input != null; input = inbox.poll()) {
        input.run();
      }
    }
  }

  /** Kills what lives; from any thread. */
  @Override
  public void close() {
    fleet.close();
    Process process = flooder;
    if (process != null) {
      process.destroyForcibly();
    }
    if (!clean) {
      return; // What the processes said is worth a look.
    }
    try (Stream<Path> files = Files.walk(folder)) {
      files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
    } catch (IOException | UncheckedIOException e) {
      System.err.println("isolation: " + folder + " is left: " + e.getMessage());
    }
  }
}
