package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.discovery.PrefillerDirectory;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.wire.ReleaseRequest;
import dev.mooncake4j.core.wire.WireCodec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Looks after prefillers that pulls wait for, so that one that hangs is noticed in seconds and not
 * at the pull's deadline. Owned by the worker loop.
 *
 * <p>A process that is gone, stopped or cut off is told by its connection: by its end, or by a
 * heartbeat that is not answered. What is left is a process that hangs behind sockets that go on by
 * themselves, as those of libzmq do. So each engine is asked for with {@code GET /query}, which
 * every vLLM prefiller answers too. A bootstrap server may be another process, though, and its end
 * is not the prefiller's: if it does not answer, or does not name the engine, the ranks are asked
 * themselves, with a release of nothing, to which ours says that all is done and vLLM's that it
 * does not understand. A rank that is silent twice has failed, and so has one that refuses.
 */
final class PrefillerWatch {
  /** From the end of one look to the next, and from a pull's begin to the first. */
  static final long PAUSE_NANOS = TimeUnit.SECONDS.toNanos(3);

  /** How long the server, and then a rank, is waited for. */
  static final Duration PATIENCE = Duration.ofSeconds(2);

  /** Two looks take at most 2 * (3 + 2 + 2) s. */
  private static final int MOST_MISSES = 2;

  private final EventLoop loop;
  private final PrefillerDirectory directory;
  private final PrefillerConnections connections;
  private final Map<Engine, Watched> engines = new HashMap<>();

  private record Engine(String engineId, String bootstrapAddress) {}

  PrefillerWatch(EventLoop loop, PrefillerDirectory directory, PrefillerConnections connections) {
    this.loop = loop;
    this.directory = directory;
    this.connections = connections;
  }

  /** A pull waits for a rank's answer. */
  void begin(RankPull pull) {
    engines.computeIfAbsent(engine(pull), Watched::new).pulls.add(pull);
  }

  /** It does not any more. Idempotent. */
  void end(RankPull pull) {
    Engine engine = engine(pull);
    Watched watched = engines.get(engine);
    if (watched != null && watched.pulls.remove(pull) && watched.pulls.isEmpty()) {
      watched.stop();
      engines.remove(engine);
    }
  }

  private static Engine engine(RankPull pull) {
    return new Engine(pull.engineId, pull.bootstrapAddress);
  }

  /** One engine, for as long as a pull waits for a rank of it. */
  private final class Watched {
    private final Engine engine;
    private final Set<RankPull> pulls = new LinkedHashSet<>();
    private final Map<String, Integer> misses = new HashMap<>();
    private Deadline next;
    private boolean over;
    private int asked;

    Watched(Engine engine) {
      this.engine = engine;
      this.next = loop.schedule(PAUSE_NANOS, this::look);
    }

    private void look() {
      directory.look(
          engine.engineId(), engine.bootstrapAddress(), PATIENCE, known -> looked(known));
    }

    private void looked(boolean known) {
      if (over) {
        return;
      }
      if (known) {
        misses.clear();
        again();
        return;
      }
      Set<String> addresses = new LinkedHashSet<>();
      pulls.forEach(pull -> addresses.add(pull.address()));
      misses.keySet().retainAll(addresses);
      asked = addresses.size();
      addresses.forEach(address -> new Look(this, address).start());
    }

    private void again() {
      next = loop.schedule(PAUSE_NANOS, this::look);
    }

    /** A rank has been asked. */
    void told(String address, Verdict verdict) {
      if (over) {
        return;
      }
      asked--;
      if (asked == 0) {
        again();
      }
      if (verdict == Verdict.LIVES) {
        misses.remove(address);
        return;
      }
      int missed = misses.merge(address, 1, Integer::sum);
      if (verdict == Verdict.GONE || missed >= MOST_MISSES) {
        misses.remove(address);
        fail(address, verdict, missed);
      }
    }

    private void fail(String address, Verdict verdict, int missed) {
      String reason =
          verdict == Verdict.GONE
              ? "the prefiller is gone: nothing listens at addr=" + address
              : "the prefiller hangs: neither bootstrap_addr="
                  + engine.bootstrapAddress()
                  + " nor addr="
                  + address
                  + " answers, misses="
                  + missed;
      List<RankPull> there = new ArrayList<>();
      for (RankPull pull : pulls) {
        if (pull.address().equals(address)) {
          there.add(pull);
        }
      }
      there.forEach(pull -> pull.hangs(reason));
    }

    void stop() {
      over = true;
      next.cancel();
    }
  }

  private enum Verdict {
    LIVES,
    SILENT,
    GONE
  }

  /** One question to one rank. */
  private final class Look implements Exchange {
    private final Watched watched;
    private final String address;
    private @Nullable ChannelConnection connection;
    private @Nullable Deadline patience;

    Look(Watched watched, String address) {
      this.watched = watched;
      this.address = address;
    }

    void start() {
      try {
        connection =
            connections.ask(address, WireCodec.encode(new ReleaseRequest(List.of())), this);
        patience = loop.schedule(PATIENCE.toNanos(), this::silent);
      } catch (KvConnectorException e) {
        watched.told(address, Verdict.SILENT);
      }
    }

    @Override
    public boolean onReply(byte[] payload) {
      cancel();
      watched.told(address, Verdict.LIVES);
      return true;
    }

    @Override
    public void onClosed(String reason, boolean wasConnected) {
      cancel();
      ChannelConnection ended = connection;
      watched.told(address, ended != null && ended.wasRefused() ? Verdict.GONE : Verdict.SILENT);
    }

    private void silent() {
      ChannelConnection current = connection;
      if (current != null) {
        connections.abandon(current);
      }
      watched.told(address, Verdict.SILENT);
    }

    private void cancel() {
      if (patience != null) {
        patience.cancel();
      }
    }
  }
}
