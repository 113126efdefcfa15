package dev.mooncake4j.core.trace;

import java.util.Locale;

/** What a request goes through on either side; each is recorded as a {@link RequestStage}. */
public enum Stage {
  /** Decoder: all of it, from the pull's start until its end is reported. */
  REQUEST(Side.DECODER),
  /** Decoder: the prefiller's ranks are asked of its bootstrap server. */
  FIND(Side.DECODER),
  /** Decoder: the ranks were asked, until all have answered or one has broken off. */
  FETCH(Side.DECODER),
  /** Decoder: what has arrived is compared with its digest. */
  CHECK(Side.DECODER),
  /** Decoder: the blocks of a failed request are held back, as a peer may still write to them. */
  HELD_BACK(Side.DECODER),
  /** Prefiller: from the announcement until the blocks are ready. */
  PREFILL(Side.PREFILLER),
  /** Prefiller: the blocks are kept, from ready to the end. */
  HELD(Side.PREFILLER),
  /** Prefiller: a decoder's request waits for its prefill. */
  WAIT(Side.PREFILLER),
  /** Prefiller: a transfer waits for an engine thread. */
  QUEUE(Side.PREFILLER),
  /** Prefiller: a transfer is planned and written. */
  WRITE(Side.PREFILLER);

  /** Who records a stage. */
  public enum Side {
    /** The one that fetches. */
    DECODER,
    /** The one that writes. */
    PREFILLER;

    private final String text = name().toLowerCase(Locale.ROOT);

    /** As events and log lines have it. */
    public String text() {
      return text;
    }
  }

  private final Side side;
  private final String text = name().toLowerCase(Locale.ROOT);

  Stage(Side side) {
    this.side = side;
  }

  /** Who records it. */
  public Side side() {
    return side;
  }

  /** As events have it. */
  public String text() {
    return text;
  }
}
