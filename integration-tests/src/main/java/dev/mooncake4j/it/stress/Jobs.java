package dev.mooncake4j.it.stress;

import dev.mooncake4j.it.stress.Messages.PullJob;
import dev.mooncake4j.it.stress.Messages.Ready;
import dev.mooncake4j.it.stress.Messages.SendJob;
import java.util.Random;

/** The two halves of a request as jobs, and when each peer hears of its own. */
record Jobs(SendJob send, int sendAfterMillis, PullJob pull, int pullAfterMillis) {
  private static final int SOON_MILLIS = 60;
  private static final int MORE_BLOCKS = 3;

  /** Draws what its kind leaves open. */
  static Jobs draw(Request request, long seed, Ready prefiller, Random random) {
    Kind kind = request.kind;
    String transferId = "x-" + seed + "-" + request.n;
    int lease = (int) Fleet.LEASE.toMillis();
    int blocks = size(random);
    int cached =
        switch (kind) {
          case CACHED -> blocks;
          case PLAIN, QUEUED -> random.nextInt(8) == 0 ? random.nextInt(blocks) : 0;
          default -> 0;
        };
    SendJob send =
        new SendJob(
            request.n,
            transferId,
            blocks,
            random.nextBoolean(),
            soon(random),
            kind == Kind.PREFILL_ABORTED,
            kind == Kind.LET_GO_THERE ? soon(random) : -1);
    PullJob pull =
        new PullJob(
            request.n,
            transferId,
            prefiller.engineId(),
            String.valueOf(prefiller.bootstrap()),
            kind == Kind.TOO_MUCH ? blocks + MORE_BLOCKS : blocks,
            cached,
            random.nextBoolean(),
            kind == Kind.QUEUED ? lease + lease / 2 + random.nextInt(lease) : random.nextInt(10),
            kind == Kind.GIVEN_UP,
            kind == Kind.PULL_ABORTED ? soon(random) : -1,
            kind == Kind.LET_GO_HERE ? soon(random) : -1);
    boolean prefillerFirst = random.nextBoolean();
    int later = soon(random);
    int pullAfter = prefillerFirst ? later : 0;
    if (kind == Kind.LATE) {
      pullAfter = lease + lease / 2;
    }
    return new Jobs(send, prefillerFirst ? 0 : later, pull, pullAfter);
  }

  private static int soon(Random random) {
    return random.nextInt(SOON_MILLIS);
  }

  /** Mostly small, some large. */
  private static int size(Random random) {
    int kind = random.nextInt(20);
    if (kind < 14) {
      return 1 + random.nextInt(8);
    }
    return kind < 19 ? 9 + random.nextInt(24) : 33 + random.nextInt(64);
  }
}
