package dev.mooncake4j.core.channel;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.jspecify.annotations.NullMarked;

/** Takes down what a channel delivers, as text, and can answer requests. */
@NullMarked
class Recorder implements SideChannel.Events {
  final List<String> heard = new ArrayList<>();
  final Deque<PeerIdentity> requesters = new ArrayDeque<>();
  final List<ChannelConnection> closed = new ArrayList<>();
  final List<PeerIdentity> gone = new ArrayList<>();

  @Override
  public void onRequest(PeerIdentity from, byte[] payload) {
    requesters.add(from);
    heard.add("request " + text(payload));
  }

  @Override
  public void onMalformedRequest(PeerIdentity from, int frames) {
    requesters.add(from);
    heard.add("malformed " + frames);
  }

  @Override
  public void onRequesterGone(PeerIdentity peer) {
    gone.add(peer);
  }

  @Override
  public void onReply(ChannelConnection connection, byte[] payload) {
    heard.add("reply " + text(payload));
  }

  @Override
  public void onClosed(ChannelConnection connection, String reason) {
    closed.add(connection);
    heard.add("closed " + reason);
  }

  @Override
  public void onFailed(Throwable cause) {
    heard.add("failed " + cause.getMessage());
  }

  /** The requester of the oldest request not yet asked for. */
  PeerIdentity nextRequester() {
    return requesters.remove();
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static String text(byte[] payload) {
    return payload.length > 100
        ? "bytes=" + payload.length
        : new String(payload, StandardCharsets.UTF_8);
  }
}
