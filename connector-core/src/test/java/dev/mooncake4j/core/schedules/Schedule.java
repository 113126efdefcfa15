package dev.mooncake4j.core.schedules;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.core.producer.ManualTransfers.Transfer;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.FakeBootstrap.LookAnswer;
import dev.mooncake4j.core.rig.FakeConnection;
import dev.mooncake4j.core.rig.RigOptions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/**
 * One random schedule: two servers that prefill, fetch, cancel and release; a network whose
 * connections break, stall and hold frames back; engines that are slow or fail; a bootstrap server
 * that is away. After it all faults end, and everything must have come to rest. Longer than most
 * classes, since all that may happen is drawn here, from one source of chance.
 */
final class Schedule implements AutoCloseable {
  private static final boolean TRACE = Boolean.getBoolean("m4j.trace");
  private static final int BLOCKS = 24;
  private static final Duration ABORT = Duration.ofSeconds(30);

  /** No engine takes longer: its own deadline would have ended the write. */
  private static final long SLOWEST_WRITE_NANOS = Duration.ofSeconds(20).toNanos();

  private final SplittableRandom random;
  private final CoreRig rig;
  private final List<PrefillServer> prefillers = new ArrayList<>();
  private final List<DecodeServer> decoders = new ArrayList<>();
  private final List<Planned> planned = new ArrayList<>();
  private final IdentityHashMap<Transfer, Long> begun = new IdentityHashMap<>();
  private final Map<String, Integer> stalled = new HashMap<>();

  /** 0: only what servers do; 1: few faults; 2: many. */
  private final int faults;

  private int requests;
  private int earlyWrites;
  private int earlyBesideAnother;
  private int left;

  /** A transfer as the router knows it. */
  private static final class Planned {
    final String transferId;
    final int blocks;
    boolean announced;
    boolean readied;
    boolean cancelled;
    boolean pulled;

    /** The decoder's request that has arrived and waits for its turn. */
    @Nullable String queued;

    Planned(String transferId, int blocks) {
      this.transferId = transferId;
      this.blocks = blocks;
    }
  }

  Schedule(long seed) {
    random = new SplittableRandom(seed);
    faults = random.nextInt(3);
    int prefillerTp = random.nextInt(4) == 0 ? 2 : 1;
    int decoderTp = random.nextInt(4) == 0 ? 2 : 1;
    Duration lease = random.nextInt(3) == 0 ? Duration.ofSeconds(12) : null;
    boolean checked = random.nextInt(3) == 0;
    rig =
        new CoreRig(
            RigOptions.defaults()
                .withAbortTimeout(ABORT)
                .withLease(lease)
                .withRanks(prefillerTp, decoderTp)
                .withBlocks(BLOCKS)
                .withIntegrityCheck(checked));
    for (int i = 0; i < prefillerTp; i++) {
      prefillers.add(new PrefillServer(rig.prefiller(i)));
    }
    for (int i = 0; i < decoderTp; i++) {
      decoders.add(new DecodeServer(rig.decoder(i), prefillerTp == decoderTp));
    }
    rig.watchWrites(this::checkWrite);
  }

  /** Every byte that moves: from blocks that are held, to blocks that wait for them. */
  private void checkWrite(long source, long destination, long length) {
    String from = null;
    for (PrefillServer p : prefillers) {
      if (p.rank.cache().contains(source)) {
        Object owner = p.blocks.owner(p.rank.cache().blockAt(source));
        from = owner instanceof PrefillServer.Send send ? send.transferId : null;
      }
    }
    for (DecodeServer d : decoders) {
      if (d.rank.cache().contains(destination)) {
        String to = d.transferInto(d.rank.cache().blockAt(destination));
        assertThat(from).as("a copy from blocks that are not held").isNotNull();
        assertThat(to).as("a copy into blocks that wait for another, or nothing").isEqualTo(from);
        return;
      }
    }
    throw new AssertionError("a copy to nowhere, length=" + length);
  }

  void run(int actions) {
    for (int i = 0; i < actions; i++) {
      act(random.nextInt(100));
      if (random.nextBoolean()) {
        settle();
      }
    }
    comeToRest();
  }

  /** With {@code -Dm4j.trace=true} a schedule tells what it does. */
  private void trace(String what) {
    if (TRACE) {
      System.out.printf("%8.3f %s%n", rig.clock().nanoTime() / 1e9, what);
    }
  }

  private void act(int dice) {
    if (dice < 14) {
      planned.add(new Planned("t" + planned.size(), random.nextInt(1, 5)));
    } else if (dice < 24) {
      announce(somePlanned());
    } else if (dice < 27) {
      queue(somePlanned());
    } else if (dice < 37) {
      progress(somePlanned());
    } else if (dice < 46) {
      ready(somePlanned());
    } else if (dice < 61) {
      pull(somePlanned());
    } else if (dice < 63) {
      giveUp();
    } else if (dice < 66) {
      change(somePlanned());
    } else if (dice < 79) {
      transfer();
    } else if (dice < 84) {
      network();
    } else if (dice < 86) {
      bootstrap();
    } else {
      advance(random.nextInt(6) == 0 ? random.nextInt(1, 15) : random.nextDouble() * 2);
    }
  }

  private Planned somePlanned() {
    if (planned.isEmpty()) {
      planned.add(new Planned("t0", 2));
    }
    // The latest more often: what is old has ended, mostly.
    int back = Math.min(random.nextInt(planned.size()), random.nextInt(planned.size()));
    return planned.get(planned.size() - 1 - back);
  }

  private void announce(Planned transfer) {
    if (!transfer.announced && !transfer.readied && !transfer.cancelled) {
      transfer.announced = true;
      trace("announce " + transfer.transferId);
      prefillers.forEach(p -> p.announce(transfer.transferId));
    }
  }

  private void progress(Planned transfer) {
    if (!transfer.readied && !transfer.cancelled) {
      announce(transfer);
      trace("progress " + transfer.transferId);
      for (PrefillServer p : prefillers) {
        p.progress(transfer.transferId, transfer.blocks, random);
        maybeTurn();
      }
    }
  }

  private void ready(Planned transfer) {
    if (!transfer.readied && !transfer.cancelled) {
      transfer.readied = true;
      trace("ready " + transfer.transferId);
      for (PrefillServer p : prefillers) {
        if (!p.ready(transfer.transferId, transfer.blocks, random)) {
          p.cancel(transfer.transferId); // no room: the prefill is refused there
        }
        maybeTurn();
      }
    }
  }

  private void queue(Planned transfer) {
    if (!transfer.pulled && transfer.queued == null) {
      String requestId = "d" + requests++;
      transfer.queued = requestId;
      trace("queue " + requestId + " of " + transfer.transferId);
      decoders.forEach(d -> d.rank.arrive(requestId, transfer.transferId));
    }
  }

  private void pull(Planned transfer) {
    if (transfer.pulled && random.nextInt(8) != 0) {
      return;
    }
    transfer.pulled = true;
    String requestId = transfer.queued == null ? "d" + requests++ : transfer.queued;
    transfer.queued = null;
    int count = random.nextInt(6) == 0 ? random.nextInt(1, 6) : transfer.blocks;
    boolean releasesOnly = random.nextInt(10) == 0;
    trace("pull " + requestId + " of " + transfer.transferId + " releases=" + releasesOnly);
    for (DecodeServer d : decoders) {
      if (releasesOnly || !d.pull(requestId, transfer.transferId, count, transfer.blocks, random)) {
        d.rank.pull(requestId, transfer.transferId); // nothing to fetch, or no room: only let go
      }
      maybeTurn();
    }
  }

  private void giveUp() {
    List<String> open = decoders.get(random.nextInt(decoders.size())).unended();
    if (!open.isEmpty()) {
      String requestId = open.get(random.nextInt(open.size()));
      trace("cancel " + requestId);
      decoders.forEach(d -> d.rank.cancel(requestId));
    }
  }

  private void change(Planned transfer) {
    int change = random.nextInt(3);
    trace(List.of("cancel ", "p releases ", "d releases ").get(change) + transfer.transferId);
    switch (change) {
      case 0 -> {
        transfer.cancelled = true;
        prefillers.forEach(p -> p.cancel(transfer.transferId));
      }
      case 1 -> prefillers.forEach(p -> p.rank.release(transfer.transferId));
      default -> decoders.forEach(d -> d.rank.loop().post(() -> release(d, transfer)));
    }
  }

  private static void release(DecodeServer decoder, Planned transfer) {
    decoder.rank.consumer().release(transfer.transferId);
  }

  private void transfer() {
    List<Transfer> open = underWay();
    if (open.isEmpty()) {
      return;
    }
    Transfer transfer = open.get(random.nextInt(open.size()));
    if (transfer.isForNobody() && transfer.isUntouched() && random.nextInt(4) != 0) {
      trace("transfer is left");
      left++;
      transfer.leave();
      return;
    }
    int fate = faults == 0 ? random.nextInt(2) * 2 : random.nextInt(6);
    trace("transfer " + (fate == 0 ? "writes" : fate == 1 ? "fails" : "completes"));
    switch (fate) {
      case 0 -> transfer.write(random.nextInt(1, 4));
      case 1 -> transfer.fail("made to fail");
      default -> transfer.complete();
    }
  }

  private List<Transfer> underWay() {
    List<Transfer> open = new ArrayList<>();
    prefillers.forEach(p -> open.addAll(p.rank.transfers().underWay()));
    return open;
  }

  private void network() {
    if (faults == 0 || (faults == 1 && random.nextInt(3) != 0)) {
      rig.network().connections().forEach(FakeConnection::release);
      unstall();
      return;
    }
    if (random.nextInt(8) == 0) {
      String address = prefillers.get(random.nextInt(prefillers.size())).rank.address();
      if (stalled.merge(address, 1, Integer::sum) == 1) {
        trace("stall " + address);
        rig.network().stall(address);
      }
      return;
    }
    if (random.nextInt(4) == 0) {
      unstall();
    }
    List<FakeConnection> open = rig.network().connections();
    if (open.isEmpty()) {
      return;
    }
    FakeConnection connection = open.get(random.nextInt(open.size()));
    int fault = random.nextInt(6);
    trace(
        List.of("cut ", "cut, lost ", "cut, unseen ", "hold requests ", "hold replies ", "release ")
                .get(fault)
            + connection);
    switch (fault) {
      case 0 -> connection.cut(true);
      case 1 -> connection.cut(false);
      case 2 -> connection.cutUnseen();
      case 3 -> connection.holdRequests();
      case 4 -> connection.holdReplies();
      default -> connection.release();
    }
  }

  private void unstall() {
    trace("unstall");
    stalled.keySet().forEach(rig.network()::unstall);
    stalled.clear();
  }

  /** A prefiller's caches are given back, and the same ones registered again, perhaps later. */
  private void sleep() {
    PrefillServer p = prefillers.get(random.nextInt(prefillers.size()));
    trace("sleep");
    p.rank.loop().post(p.rank.producer()::detach);
    if (random.nextBoolean()) {
      settle();
    }
    p.rank.loop().post(p.rank::attach);
  }

  private void bootstrap() {
    if (faults == 0) {
      return;
    }
    if (random.nextInt(3) == 0) {
      sleep();
      return;
    }
    List<LookAnswer> all = List.of(LookAnswer.values());
    LookAnswer looks = all.get(random.nextInt(all.size()));
    trace("looks " + looks);
    rig.bootstrap().answerLooks(looks);
    int fault = random.nextInt(4);
    trace("bootstrap " + (fault == 0 ? "knows nothing" : fault == 1 ? "is away" : "is there"));
    switch (fault) {
      case 0 -> rig.bootstrap().answerAlways(List.of());
      case 1 -> rig.bootstrap().failQueries(new IllegalStateException("made to fail"));
      default -> mendBootstrap(looks);
    }
  }

  private void mendBootstrap(LookAnswer looks) {
    rig.bootstrap().answerLooks(looks);
    rig.bootstrap().failQueries(null);
    rig.bootstrap().answerAlways(List.of(rig.addresses()));
  }

  private void maybeTurn() {
    if (random.nextInt(3) == 0) {
      rig.turn();
      takeResults();
    }
  }

  private void settle() {
    rig.settle();
    takeResults();
    long now = rig.clock().nanoTime();
    for (PrefillServer p : prefillers) {
      for (Transfer transfer : p.rank.transfers().underWay()) {
        if (begun.putIfAbsent(transfer, now) == null && p.isEarly(transfer)) {
          earlyWrites++;
          if (p.isBesideAnother(transfer)) {
            earlyBesideAnother++;
          }
        }
      }
    }
  }

  private void advance(double seconds) {
    trace("advance " + seconds);
    double left = seconds;
    while (left > 0) {
      double step = Math.min(left, 1);
      settle();
      rig.advanceSeconds(step);
      left -= step;
      settle();
      long now = rig.clock().nanoTime();
      for (Transfer transfer : underWay()) {
        Long since = begun.get(transfer);
        if (since != null && now - since > SLOWEST_WRITE_NANOS) {
          transfer.complete();
        }
      }
      begun.keySet().retainAll(underWay());
    }
  }

  private void takeResults() {
    prefillers.forEach(PrefillServer::takeResults);
    decoders.forEach(DecodeServer::takeResults);
  }

  private void comeToRest() {
    unstall();
    mendBootstrap(LookAnswer.AS_KNOWN);
    rig.network().connections().forEach(FakeConnection::release);
    for (Planned transfer : planned) {
      if (transfer.announced && !transfer.readied) {
        prefillers.forEach(p -> p.cancel(transfer.transferId));
      }
    }
    for (Planned transfer : planned) {
      if (transfer.queued != null) {
        transfer.pulled = false;
        pull(transfer); // a request that has arrived is pulled in the end, if only to release
      }
    }
    // Past every wait there is: the abort timeout, its margin, the tombstones, idle connections.
    advance(400);
    for (PrefillServer p : prefillers) {
      assertThat(p.unended()).as("sends that never ended").isEmpty();
      assertThat(p.blocks.isEmpty()).as("prefiller blocks are free").isTrue();
      assertThat(p.rank.producer().sends()).isZero();
      assertThat(p.rank.producer().waitingPulls()).isZero();
      assertThat(p.rank.producer().leases()).isZero();
      assertThat(p.rank.transfers().pending()).isZero();
      assertThat(p.rank.loop().pendingDeadlines()).as("prefiller deadlines").isZero();
      assertThat(p.rank.loop().failedEvents()).isZero();
    }
    for (DecodeServer d : decoders) {
      assertThat(d.unended()).as("pulls that never ended").isEmpty();
      assertThat(d.blocks.isEmpty()).as("decoder blocks are free").isTrue();
      assertThat(d.rank.consumer().pulls()).isZero();
      assertThat(d.rank.consumer().quarantinedBlocks()).isZero();
      assertThat(d.rank.consumer().leases()).as("leases that are renewed").isZero();
      assertThat(d.rank.consumer().connections()).isZero();
      assertThat(d.rank.directory().questions()).isZero();
      assertThat(d.rank.loop().pendingDeadlines()).as("decoder deadlines").isZero();
      assertThat(d.rank.loop().failedEvents()).isZero();
    }
  }

  int received() {
    return decoders.stream().mapToInt(DecodeServer::received).sum();
  }

  int failed() {
    return decoders.stream().mapToInt(DecodeServer::failed).sum();
  }

  /** What it did while prefills went on. */
  Early early() {
    return new Early(
        earlyWrites,
        earlyBesideAnother,
        left,
        prefillers.stream().mapToInt(PrefillServer::givenUpDuringWrite).sum(),
        prefillers.stream().mapToInt(PrefillServer::begunAnewDuringWrite).sum());
  }

  /**
   * What was done while prefills went on.
   *
   * @param writes of finished blocks of them
   * @param besideAnother those that began while another one to the same decoder was under way
   * @param left writes that were not begun, since their decoder was gone
   * @param givenUp prefills, during such a write
   * @param begunAnew the same
   */
  record Early(int writes, int besideAnother, int left, int givenUp, int begunAnew) {
    static final Early NONE = new Early(0, 0, 0, 0, 0);

    Early plus(Early other) {
      return new Early(
          writes + other.writes,
          besideAnother + other.besideAnother,
          left + other.left,
          givenUp + other.givenUp,
          begunAnew + other.begunAnew);
    }
  }

  @Override
  public void close() {
    rig.close();
  }
}
