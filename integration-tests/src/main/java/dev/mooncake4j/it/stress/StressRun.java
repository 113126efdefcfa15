package dev.mooncake4j.it.stress;

import dev.mooncake4j.it.stress.Messages.Ended;
import dev.mooncake4j.it.stress.Messages.State;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;

/** One run from the start of its peers to the table: the driver's loop, one thread. */
public final class StressRun implements AutoCloseable {
  private static final Duration START = Duration.ofSeconds(90);
  private static final Duration WARM_UP = Duration.ofSeconds(6);
  private static final long TICK_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

  /** Every half is over or hung by then. */
  private static final Duration DRAIN = Fleet.ABORT_TIMEOUT.plusSeconds(100);

  /** Connections are kept for a minute after their last use. */
  private static final Duration SETTLE = Duration.ofSeconds(80);

  /** Fewer than this in ten minutes and each fault meets hardly any request. */
  private static final long FLOOR_A_MINUTE = 1000;

  private final StressOptions options;
  private final Path folder;
  private final Network network;
  private final BlockingQueue<Runnable> inbox = new LinkedBlockingQueue<>();
  private final Timers timers = new Timers();
  private final FaultLog faultLog = new FaultLog();
  private final Tally tally = new Tally(faultLog);
  private final Fleet fleet;
  private final Router router;
  private final Faults faults;
  private final Baseline baseline = new Baseline();
  private boolean loading;
  private long loadBegan;

  private StressRun(StressOptions options, Path folder) {
    this.options = options;
    this.folder = folder;
    this.network =
        options.namespaces()
            ? Network.namespaces(options.prefillers() + options.decoders())
            : Network.loopback();
    this.fleet = new Fleet(options, network, folder, inbox::add, new Ears());
    this.router = new Router(options, fleet, timers, tally);
    this.faults = new Faults(options, fleet, network, faultLog, timers);
  }

  /** Prepares a run; nothing is started yet. */
  public static StressRun of(StressOptions options) {
    try {
      return new StressRun(options, Files.createTempDirectory("stress-"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private final class Ears implements Fleet.Listener {
    @Override
    public void ended(Child child, Ended how) {
      router.ended(child, how);
    }

    @Override
    public void gone(Child child) {
      router.gone(child);
    }

    @Override
    public void crashed(Child child, String lastWords) {
      tally.problem(child + " ended by itself: " + lastWords);
    }
  }

  /** Runs; prints as it goes; returns whether all was as it has to be. */
  public boolean run() throws InterruptedException {
    System.out.printf(
        "stress: seed=%d minutes=%s prefillers=%d decoders=%d links=%s%n",
        options.seed(),
        options.load().toMillis() / 60_000.0,
        options.prefillers(),
        options.decoders(),
        network.canCut() ? "network namespaces" : "loopback, none is cut");
    Table table = new Table();
    try {
      phases(table);
    } catch (IllegalStateException e) {
      table.wrong(String.valueOf(e.getMessage()));
    }
    return verdict(table);
  }

  private void phases(Table table) throws InterruptedException {
    // Cold starts may take longer than a lease.
    List<FaultLog.Fault> starts = fleet.all().stream().map(faultLog::at).toList();
    fleet.all().forEach(fleet::start);
    spin(fleet::allReady, START, "not all peers got ready");
    starts.forEach(FaultLog.Fault::over);
    load(WARM_UP);
    spin(() -> router.open() == 0, DRAIN, "requests of the warm-up have not ended");
    askStates();
    fleet.all().forEach(baseline::take);

    faults.begin();
    progress();
    load(options.load());
    double seconds = (System.nanoTime() - loadBegan) / 1e9;
    long made = tally.requests;
    faults.end();
    spin(faults::areOver, START, "a fault could not be undone");
    spin(() -> router.open() == 0, DRAIN, "requests have not ended");
    settle();

    tally.print(table);
    table.row("processes killed and restarted", faults.kills);
    table.row("processes stopped for 5 s", faults.stops);
    table.row("links cut for 12 s", faults.cuts);
    table.row("requests in a second, faults included", Math.round(made / seconds));
    fleet.all().forEach(baseline::compare);
    baseline.print(table);
    table.mustBeZero("processes that ended by themselves", fleet.crashes());
    fleet.quit();
    spin(fleet::allGone, START, "not all peers have ended");
    List<String> badEnds = fleet.badEnds();
    badEnds.forEach(tally::problem);
    table.mustBeZero("processes that did not end well", badEnds.size());
    enough(table, made);
  }

  private void enough(Table table, long made) {
    long minutes = options.load().toMinutes();
    if (minutes >= 10 && made < 5000 * minutes) {
      System.out.printf(
          "stress: note: %,d requests in %d minutes, fewer than 5,000 a minute: a busy machine%n",
          made, minutes);
    }
    if (minutes >= 10 && made < FLOOR_A_MINUTE * minutes) {
      table.wrong("only " + made + " requests");
    }
  }

  private boolean verdict(Table table) {
    table.lines().forEach(System.out::println);
    if (table.wrong().isEmpty() && tally.isClean()) {
      System.out.printf(
          "stress: ok, %,d requests, %,d failed as they should, %,d bytes verified%n",
          tally.requests, tally.failed(), tally.bytes);
      return true;
    }
    String wrong = String.join(", ", table.wrong());
    System.out.println(
        "stress: FAILED seed="
            + options.seed()
            + ": "
            + (wrong.isEmpty() ? "see PROBLEM above" : wrong)
            + "; what the processes said is in "
            + folder);
    return false;
  }

  private void load(Duration time) throws InterruptedException {
    loadBegan = System.nanoTime();
    long end = loadBegan + time.toNanos();
    loading = true;
    spin(() -> System.nanoTime() - end >= 0, time.plusSeconds(1), "the loop was held up");
    loading = false;
  }

  private void progress() {
    if (loading) {
      double seconds = (System.nanoTime() - loadBegan) / 1e9;
      System.out.printf(
          "stress: %.0f s, %,d requests, %,d received, %,d failed, %d under way%n",
          seconds, tally.requests, tally.done, tally.failed(), router.open());
    }
    timers.after(10_000, this::progress);
  }

  private void askStates() throws InterruptedException {
    fleet.askStates();
    spin(fleet::allAnswered, START, "a peer does not tell its figures");
  }

  /** Until every peer is as it was after the warm-up, or has had the time for that. */
  private void settle() throws InterruptedException {
    long end = System.nanoTime() + SETTLE.toNanos();
    do {
      long pause = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(500);
      spin(() -> System.nanoTime() - pause >= 0, START, "");
      askStates();
    } while (!fleet.all().stream().allMatch(baseline::isBack) && System.nanoTime() - end < 0);
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
      Runnable input = inbox.poll(timers.nanosToNext(TICK_NANOS), TimeUnit.NANOSECONDS);
      for (; input != null; input = inbox.poll()) {
        input.run();
      }
      timers.runDue();
      if (loading) {
        router.make();
      }
      router.flush();
      router.findHung();
    }
  }

  /** Kills what lives; from any thread. */
  @Override
  public void close() {
    fleet.close();
    if (tally.isClean()) {
      try (Stream<Path> files = Files.walk(folder)) {
        files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
      } catch (IOException | UncheckedIOException e) {
        System.err.println("stress: " + folder + " is left: " + e.getMessage());
      }
    }
  }

  /** For a look at the last figures of a peer. */
  static State state(Peer peer) {
    State state = peer.state;
    if (state == null) {
      throw new IllegalStateException(peer.name + " has told no figures");
    }
    return state;
  }
}
