package dev.mooncake4j.core.consumer;

import dev.mooncake4j.connector.HostAddresses;
import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.core.channel.ChannelConnection;
import dev.mooncake4j.core.channel.SideChannel;
import dev.mooncake4j.core.loop.Deadline;
import dev.mooncake4j.core.loop.EventLoop;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Side-channel connections to prefillers, one question at a time on each.
 *
 * <p>An answer names requests but not the question it belongs to, and an error names nothing at
 * all: two questions under way on one connection could not be told apart. So each has a connection
 * of its own, which is kept for the next one when the last answer has come. Owned by the worker
 * loop.
 */
final class PrefillerConnections {
  /**
   * Kept per prefiller rank; beyond it a free connection is closed. As many as requests begin at
   * once: each new connection is a handshake of some round trips before the question.
   */
  private static final int MAX_IDLE_PER_PEER = 128;

  /** A free connection is closed after this. */
  private static final long IDLE_NANOS = TimeUnit.SECONDS.toNanos(60);

  private final EventLoop loop;
  private final SideChannel channel;
  private final Map<String, Deque<Idle>> idle = new HashMap<>();
  private final Map<ChannelConnection, Exchange> busy = new HashMap<>();
  private final Map<ChannelConnection, Idle> idleByConnection = new HashMap<>();
  private long lateReplies;

  private record Idle(String address, ChannelConnection connection, Deadline expiry) {}

  PrefillerConnections(EventLoop loop, SideChannel channel) {
    this.loop = loop;
    this.channel = channel;
  }

  /**
   * Asks a question at {@code tcp://host:port}. A failure to reach the peer is told to the exchange
   * later.
   *
   * @throws KvConnectorException if the question cannot even be queued
   */
  ChannelConnection ask(String address, byte[] question, Exchange exchange) {
    for (ChannelConnection kept = takeIdle(address); kept != null; kept = takeIdle(address)) {
      if (kept.send(question)) {
        busy.put(kept, exchange);
        return kept;
      }
      // It has ended, and that is not told yet.
      kept.close();
    }
    String hostAndPort = address.substring("tcp://".length());
    ChannelConnection connection;
    try {
      connection =
          channel.connect(HostAddresses.hostOf(hostAndPort), HostAddresses.portOf(hostAndPort));
    } catch (RuntimeException e) {
      throw new KvConnectorException(
          "no connection to addr=" + address + " can be made: " + e.getMessage(), e);
    }
    if (!connection.send(question)) {
      connection.close();
      throw new KvConnectorException("a new connection to addr=" + address + " takes no question");
    }
    busy.put(connection, exchange);
    return connection;
  }

  /** Asks again on the connection that a last answer has just come on. */
  boolean askAgain(ChannelConnection connection, byte[] question) {
    return busy.containsKey(connection) && connection.send(question);
  }

  private @Nullable ChannelConnection takeIdle(String address) {
    Deque<Idle> free = idle.get(address);
    Idle newest = free == null ? null : free.peekLast();
    if (newest == null) {
      return null;
    }
    forgetIdle(newest.connection());
    return newest.connection();
  }

  /** Whether an address has the form that can be asked. */
  static boolean isUsable(String address) {
    if (!address.startsWith("tcp://")) {
      return false;
    }
    try {
      String hostAndPort = address.substring("tcp://".length());
      return HostAddresses.portOf(hostAndPort) > 0
          && !HostAddresses.isWildcard(HostAddresses.hostOf(hostAndPort));
    } catch (IllegalArgumentException e) {
      return false;
    }
  }

  /** An answer has come in. */
  void onReply(ChannelConnection connection, byte[] payload) {
    Exchange exchange = busy.get(connection);
    if (exchange == null) {
      lateReplies++;
      return;
    }
    if (exchange.onReply(payload) && busy.remove(connection, exchange)) {
      keep(connection);
    }
  }

  private void keep(ChannelConnection connection) {
    String address = connection.address();
    Deque<Idle> free = idle.computeIfAbsent(address, a -> new ArrayDeque<>());
    if (free.size() >= MAX_IDLE_PER_PEER) {
      connection.close();
      return;
    }
    Deadline expiry = loop.schedule(IDLE_NANOS, () -> drop(connection));
    Idle entry = new Idle(address, connection, expiry);
    free.addLast(entry);
    idleByConnection.put(connection, entry);
  }

  private void drop(ChannelConnection connection) {
    forgetIdle(connection);
    connection.close();
  }

  private void forgetIdle(ChannelConnection connection) {
    Idle entry = idleByConnection.remove(connection);
    if (entry == null) {
      return;
    }
    entry.expiry().cancel();
    Deque<Idle> free = idle.get(entry.address());
    if (free != null) {
      free.remove(entry);
      if (free.isEmpty()) {
        idle.remove(entry.address());
      }
    }
  }

  /** A connection is gone. */
  void onClosed(ChannelConnection connection, String reason, boolean wasConnected) {
    forgetIdle(connection);
    Exchange exchange = busy.remove(connection);
    if (exchange != null) {
      exchange.onClosed(reason, wasConnected);
    }
  }

  /** Gives a question up; a late answer is dropped with the connection. */
  void abandon(ChannelConnection connection) {
    if (busy.remove(connection) != null) {
      connection.close();
    }
  }

  /** Closes all. */
  void close() {
    busy.keySet().forEach(ChannelConnection::close);
    busy.clear();
    for (Idle entry : idleByConnection.values()) {
      entry.expiry().cancel();
      entry.connection().close();
    }
    idleByConnection.clear();
    idle.clear();
  }

  int busyCount() {
    return busy.size();
  }

  int idleCount() {
    return idleByConnection.size();
  }

  long lateReplies() {
    return lateReplies;
  }
}
