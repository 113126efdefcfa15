package dev.mooncake4j.core.rig;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.channel.SideChannel;
import dev.mooncake4j.core.wire.MalformedMessageException;
import dev.mooncake4j.core.wire.PullEntry;
import dev.mooncake4j.core.wire.PullRequest;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.ReleaseRequest;
import dev.mooncake4j.core.wire.RenewRequest;
import dev.mooncake4j.core.wire.WireCodec;
import dev.mooncake4j.core.wire.WireLayout;
import dev.mooncake4j.core.worker.LoopDriver;
import dev.mooncake4j.testkit.InMemoryTransferEngine;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** A decoder rank that the test plays: it says what it likes and keeps every answer. */
public final class RawDecoder {
  private final FakeSideChannel channel;
  private final InMemoryTransferEngine engine;
  private final TestCache cache;
  private final WireLayout layout;
  private final int tpRank;
  private final int tpSize;
  private final Map<ChannelConnection, Asked> asked = new HashMap<>();
  private long layoutId;

  RawDecoder(CoreRig rig, int tpRank, int tpSize) {
    this.channel = rig.network().channel();
    this.engine = rig.newEngine();
    this.cache = rig.newCache(tpSize);
    this.tpRank = tpRank;
    this.tpSize = tpSize;
    this.layout = LoopDriver.wire(cache.local(new RankLayout(tpRank, tpSize, 0, 1, 0)));
    engine.register(cache.ranges());
  }

  /** One question on one connection and what was answered. */
  public static final class Asked {
    private final FakeConnection connection;
    private final List<PullResponse> answers = new ArrayList<>();
    private @Nullable String closed;

    private Asked(FakeConnection connection) {
      this.connection = connection;
    }

    /** Its connection. */
    public FakeConnection connection() {
      return connection;
    }

    /** Answers since the last call. */
    public List<PullResponse> answers() {
      List<PullResponse> taken = List.copyOf(answers);
      answers.clear();
      return taken;
    }

    /** The one answer since the last call; fails if there is another number. */
    public PullResponse answer() {
      List<PullResponse> taken = answers();
      if (taken.size() != 1) {
        throw new AssertionError("answers=" + taken + ", not one");
      }
      return taken.getFirst();
    }

    /** Why the connection ended, or {@code null}. */
    public @Nullable String closed() {
      return closed;
    }

    /** Sends another frame on the same connection. */
    public void sendBytes(byte[] frame) {
      if (!connection.send(frame)) {
        throw new AssertionError("the frame was not taken");
      }
    }
  }

  /** Has its connections come from this host from now on; they all come from one otherwise. */
  public RawDecoder from(String host) {
    channel.comesFrom(host);
    return this;
  }

  /** Asks for one request's blocks; none only releases. */
  public Asked pull(String address, String requestId, String transferId, int... blocks) {
    return pull(address, entry(requestId, transferId, blocks));
  }

  /** Asks for several requests' blocks in one pull. */
  public Asked pull(String address, PullEntry... entries) {
    return ask(address, WireCodec.encode(request(true, entries)));
  }

  /** The same with the layout's name alone. */
  public Asked pullNamingLayout(String address, PullEntry... entries) {
    return ask(address, WireCodec.encode(request(false, entries)));
  }

  /** Renews leases. */
  public Asked renew(String address, String... transferIds) {
    return ask(address, WireCodec.encode(new RenewRequest(List.of(transferIds))));
  }

  /** Lets transfers go. */
  public Asked release(String address, String... transferIds) {
    return ask(address, WireCodec.encode(new ReleaseRequest(List.of(transferIds))));
  }

  /** Sends one frame on a connection of its own. */
  public Asked ask(String address, byte[] frame) {
    String hostAndPort = address.substring("tcp://".length());
    int colon = hostAndPort.lastIndexOf(':');
    ChannelConnection connection =
        channel.connect(
            hostAndPort.substring(0, colon), Integer.parseInt(hostAndPort.substring(colon + 1)));
    Asked question = new Asked((FakeConnection) connection);
    asked.put(connection, question);
    question.sendBytes(frame);
    return question;
  }

  /** A pull as it goes on the wire. */
  public PullRequest request(boolean withLayout, PullEntry... entries) {
    return new PullRequest(
        engine.host(),
        engine.port(),
        tpSize,
        tpRank,
        List.of(entries),
        withLayout ? layout : WireLayout.empty(),
        1,
        layoutId);
  }

  /** One request within a pull. */
  public static PullEntry entry(String requestId, String transferId, int... blocks) {
    return new PullEntry(
        requestId, transferId, blocks.length == 0 ? BlockIds.none() : BlockIds.of(blocks));
  }

  /** From now on pulls name their layout so; 0 does not name it. */
  public void nameLayout(long id) {
    layoutId = id;
  }

  /** Its memory. */
  public TestCache cache() {
    return cache;
  }

  /** Its engine, {@code host:port}. */
  public String session() {
    return engine.address();
  }

  void poll() {
    channel.poll(
        0,
        new SideChannel.Events() {
          @Override
          public void onRequest(PeerIdentity from, byte[] payload) {
            throw new AssertionError("a decoder was asked");
          }

          @Override
          public void onMalformedRequest(PeerIdentity from, int frames) {
            throw new AssertionError("a decoder was asked");
          }

          @Override
          public void onRequesterGone(PeerIdentity peer) {
            throw new AssertionError("a decoder was asked");
          }

          @Override
          public void onReply(ChannelConnection connection, byte[] payload) {
            try {
              asked(connection).answers.add(WireCodec.decodeResponse(payload));
            } catch (MalformedMessageException e) {
              throw new AssertionError(e);
            }
          }

          @Override
          public void onClosed(ChannelConnection connection, String reason) {
            asked(connection).closed = reason;
          }

          @Override
          public void onFailed(Throwable cause) {
            throw new AssertionError(cause);
          }
        });
  }

  private Asked asked(ChannelConnection connection) {
    Asked question = asked.get(connection);
    if (question == null) {
      throw new AssertionError("nothing was asked on " + connection);
    }
    return question;
  }
}
