package dev.mooncake4j.core.rig;

import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.channel.SideChannel;
import java.util.ArrayDeque;
import java.util.Deque;
import org.jspecify.annotations.Nullable;

/** One connection of a {@link FakeNetwork}, and what a test may do to it. */
public final class FakeConnection implements ChannelConnection {
  private final FakeNetwork network;
  private final FakeSideChannel client;
  private final String address;
  private final PeerIdentity identity;
  private final Deque<byte[]> replies = new ArrayDeque<>();
  private @Nullable FakeSideChannel server;
  private @Nullable String end;
  private boolean open = true;
  private boolean refused;
  private boolean holdsRequests;
  private boolean holdsReplies;
  private boolean full;
  private boolean endToBeTold = true;

  FakeConnection(
      FakeNetwork network, FakeSideChannel client, String address, PeerIdentity identity) {
    this.network = network;
    this.client = client;
    this.address = address;
    this.identity = identity;
  }

  @Override
  public String address() {
    return address;
  }

  @Override
  public boolean wasConnected() {
    return server != null;
  }

  @Override
  public boolean wasRefused() {
    return refused;
  }

  @Override
  public boolean send(byte[] payload) {
    if (!open || end != null || full) {
      return false;
    }
    network.send(this, payload.clone());
    return true;
  }

  @Override
  public void close() {
    if (open) {
      open = false;
      replies.clear();
      client.forget(this);
      network.closed(this);
    }
  }

  /** Whether it is open at the asking end. */
  public boolean isOpen() {
    return open;
  }

  /**
   * Breaks it: answers under way are lost, and each end is told when it is polled.
   *
   * @param requestsArrive whether requests under way still reach the peer, before its end does
   */
  public void cut(boolean requestsArrive) {
    end("the connection was cut");
    replies.clear();
    if (!requestsArrive) {
      network.dropRequests(this);
    }
  }

  /**
   * Breaks it so that the asking end alone notices, as where the network loses what the host says.
   */
  public void cutUnseen() {
    endToBeTold = false;
    cut(true);
  }

  /** Requests wait on their way until {@link #release}. */
  public void holdRequests() {
    holdsRequests = true;
  }

  /** Answers wait on their way until {@link #release}. */
  public void holdReplies() {
    holdsReplies = true;
  }

  /** What was held may be delivered. */
  public void release() {
    holdsRequests = false;
    holdsReplies = false;
  }

  /** Loses the requests that are under way; returns how many. */
  public int dropRequests() {
    return network.dropRequests(this);
  }

  /** Loses the answers that are under way; returns how many. */
  public int dropReplies() {
    int n = replies.size();
    replies.clear();
    return n;
  }

  /** From now on its queue takes no further question, or does again. */
  public void setFull(boolean isFull) {
    full = isFull;
  }

  /** Requests under way. */
  public int requestsUnderWay() {
    return network.requestsOf(this);
  }

  /** Answers under way. */
  public int repliesUnderWay() {
    return replies.size();
  }

  PeerIdentity identity() {
    return identity;
  }

  @Nullable FakeSideChannel server() {
    return server;
  }

  boolean holdsRequests() {
    return holdsRequests;
  }

  void end(String reason) {
    if (end == null) {
      end = reason;
      network.ended(this);
    }
  }

  /** Whether the answering end is still to hear that it has ended. */
  boolean isEndToBeTold() {
    return endToBeTold;
  }

  void endTold() {
    endToBeTold = false;
  }

  boolean takeReply(byte[] payload) {
    if (!open || end != null) {
      return false;
    }
    replies.add(payload.clone());
    return true;
  }

  /** Whether a poll of the asking end would tell something. */
  boolean hasNews() {
    if (end != null) {
      return true;
    }
    return server == null ? !network.isStalled(this) : !holdsReplies && !replies.isEmpty();
  }

  /** What there is to tell the asking end. */
  void poll(SideChannel.Events events) {
    if (server == null && end == null && !network.isStalled(this)) {
      server = network.reach(this);
      if (server == null) {
        refused = true;
        end("nothing answers at " + address);
      }
    }
    while (open && !holdsReplies && !replies.isEmpty()) {
      events.onReply(this, replies.removeFirst());
    }
    String reason = end;
    if (open && reason != null) {
      close();
      events.onClosed(this, reason);
    }
  }

  @Override
  public String toString() {
    return "connection to " + address;
  }
}
