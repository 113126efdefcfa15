package dev.mooncake4j.it.stress;

import dev.mooncake4j.it.stress.Messages.Outcome;
import java.util.Random;

/** Kinds of requests: how often each comes, and how it has to end where nothing goes wrong. */
enum Kind {
  /** Sent and fetched; every order and shape. */
  PLAIN(800),
  /** All blocks are cached at the decoder: it only releases. */
  CACHED(25),
  /** The decoder gives it up before it schedules it. */
  GIVEN_UP(25),
  /** The prefill is aborted. */
  PREFILL_ABORTED(35),
  /** Aborted while it is fetched. */
  PULL_ABORTED(40),
  /** A router lets it go at the prefiller. */
  LET_GO_THERE(15),
  /** A router lets it go at the decoder. */
  LET_GO_HERE(15),
  /** Queued at the decoder for longer than a lease, which is renewed. */
  QUEUED(12),
  /** Its decoder hears of it when its lease has run out. */
  LATE(10),
  /** No decoder ever hears of it. */
  UNFETCHED(6),
  /** No prefiller ever hears of it. */
  UNSENT(2),
  /** The decoder asks for more blocks than there are. */
  TOO_MUCH(12);

  private static final int TOTAL = 997;

  private final int weight;

  Kind(int weight) {
    this.weight = weight;
  }

  static Kind draw(Random random) {
    int left = random.nextInt(TOTAL);
    for (Kind kind : values()) {
      left -= kind.weight;
      if (left < 0) {
        return kind;
      }
    }
    throw new IllegalStateException("the weights are more than " + TOTAL);
  }

  /** Whether it takes seconds by its nature, and so does not count as being under way. */
  boolean isSlow() {
    return switch (this) {
      case QUEUED, LATE, UNFETCHED, UNSENT -> true;
      default -> false;
    };
  }

  /** Whether a decoder may end so with no fault about. */
  boolean fitsDecoder(Outcome outcome, String stage) {
    boolean failed = outcome == Outcome.FAILED;
    return switch (this) {
      case PLAIN, QUEUED -> outcome == Outcome.DONE;
      case CACHED, GIVEN_UP -> outcome == Outcome.LET_GO;
      case PREFILL_ABORTED, LATE, UNSENT -> failed && stage.equals("PREFILL");
      case TOO_MUCH -> failed && stage.equals("PLAN");
      case PULL_ABORTED, LET_GO_HERE ->
          outcome == Outcome.DONE
              || outcome == Outcome.LET_GO
              || (failed && (stage.equals("ABORTED") || stage.equals("PREFILL")));
      case LET_GO_THERE -> outcome == Outcome.DONE || (failed && stage.equals("PREFILL"));
      case UNFETCHED -> false;
    };
  }

  /** Whether a prefiller may end so with no fault about. */
  boolean fitsPrefiller(Outcome outcome) {
    return switch (this) {
      case PLAIN, QUEUED -> outcome == Outcome.SERVED;
      case CACHED, GIVEN_UP ->
          outcome == Outcome.SERVED || outcome == Outcome.RELEASED || outcome == Outcome.LET_GO;
      case PREFILL_ABORTED -> outcome == Outcome.LET_GO;
      case LATE, UNFETCHED -> outcome == Outcome.EXPIRED;
      case UNSENT -> false;
      case TOO_MUCH -> outcome != Outcome.SERVED;
      case PULL_ABORTED, LET_GO_THERE, LET_GO_HERE -> outcome != Outcome.EXPIRED;
    };
  }
}
