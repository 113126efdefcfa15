package dev.mooncake4j.core.channel;

import static dev.mooncake4j.core.channel.Recorder.bytes;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.SharedSecret;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.jspecify.annotations.NullMarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.zeromq.SocketType;
import org.zeromq.ZMQ;

/** Both ends against another implementation of ZMTP. */
@NullMarked
@Timeout(60)
class JeroMqInteropTest {
  private final ZMQ.Context context = ZMQ.context(1);
  private final List<ZMQ.Socket> sockets = new ArrayList<>();
  private final Recorder recorder = new Recorder();

  private ZMQ.Socket socket(SocketType type) {
    ZMQ.Socket socket = context.socket(type);
    socket.setLinger(0);
    sockets.add(socket);
    return socket;
  }

  @AfterEach
  void close() {
    sockets.forEach(ZMQ.Socket::close);
    context.term();
  }

  @Test
  void aDealerOfTheirsIsAnswered() {
    try (ZmtpSideChannel p = new ZmtpSideChannel()) {
      int port = p.bind("127.0.0.1");
      ZMQ.Socket d = socket(SocketType.DEALER);
      d.setHeartbeatIvl(100);
      d.setHeartbeatTimeout(1000);
      d.setHandshakeIvl(1000); // theirs stalls now and then, and then begins again
      d.connect("tcp://127.0.0.1:" + port);
      for (int size : new int[] {0, 1, 255, 256, 100_000, 5_000_000}) {
        d.send(new byte[size]);
        int expected = recorder.heard.size() + 1;
        SideChannelContract.pollUntil(() -> recorder.heard.size() == expected, p, recorder);
        p.reply(recorder.nextRequester(), new byte[size]);
        byte[] answer = answer(d, p);
        assertThat(answer).hasSize(size);
      }
      // Long enough for several heartbeats of theirs.
      long until = System.nanoTime() + 1_500_000_000;
      while (System.nanoTime() < until) {
        p.poll(20_000_000, recorder);
      }
      d.send("two", ZMQ.SNDMORE);
      d.send("frames");
      SideChannelContract.pollUntil(() -> recorder.heard.contains("malformed 2"), p, recorder);
      p.reply(recorder.nextRequester(), bytes("error"));
      assertThat(answer(d, p)).isEqualTo(bytes("error"));
      assertThat(p.droppedReplies()).isZero();
    }
  }

  private byte[] answer(ZMQ.Socket d, SideChannel p) {
    long deadline = System.nanoTime() + 20_000_000_000L;
    byte[] answer;
    while ((answer = d.recv(ZMQ.DONTWAIT)) == null) {
      assertThat(System.nanoTime()).isLessThan(deadline);
      p.poll(5_000_000, recorder);
    }
    assertThat(d.hasReceiveMore()).isFalse();
    return answer;
  }

  @Test
  void aRouterOfTheirsIsAsked() {
    ZMQ.Socket p = socket(SocketType.ROUTER);
    p.bind("tcp://127.0.0.1:0");
    String endpoint = p.getLastEndpoint();
    int port = Integer.parseInt(endpoint.substring(endpoint.lastIndexOf(':') + 1));
    try (ZmtpSideChannel d = new ZmtpSideChannel()) {
      ChannelConnection connection = connected(d, p, port);
      for (int size : new int[] {0, 1, 255, 256, 100_000, 5_000_000}) {
        assertThat(connection.send(new byte[size])).isTrue();
        byte[] identity;
        while ((identity = p.recv(ZMQ.DONTWAIT)) == null) {
          d.poll(5_000_000, recorder);
          assertThat(recorder.closed).doesNotContain(connection);
        }
        assertThat(p.recv()).hasSize(size);
        assertThat(p.hasReceiveMore()).isFalse();
        for (int i = 0; i < 2; i++) {
          p.sendMore(identity);
          p.send(new byte[size]);
        }
        int expected = recorder.heard.size() + 2;
        SideChannelContract.pollUntil(() -> recorder.heard.size() == expected, d, recorder);
      }
      p.close();
      sockets.remove(p);
      SideChannelContract.pollUntil(() -> recorder.closed.contains(connection), d, recorder);
      assertThat(recorder.heard.getLast()).isEqualTo("closed connection lost: closed by the peer");
    }
  }

  /** Their PLAIN client against our server, and our client against their server. */
  @Test
  void plainIsSpokenBothWays() throws InterruptedException {
    SharedSecret secret = SharedSecret.of("correct-horse-battery");
    try (ZmtpSideChannel p = new ZmtpSideChannel(secret)) {
      int port = p.bind("127.0.0.1");
      ZMQ.Socket wrong = plainDealer("another-horse-battery", port);
      ZMQ.Socket right = plainDealer("correct-horse-battery", port);
      wrong.send("wrong");
      right.send("right");
      SideChannelContract.pollUntil(
          () -> p.refusedPeers() > 0 && !recorder.heard.isEmpty(), p, recorder);
      p.reply(recorder.nextRequester(), bytes("answer"));
      assertThat(answer(right, p)).isEqualTo(bytes("answer"));
      assertThat(recorder.heard).containsExactly("request right");
    }
    recorder.heard.clear();
    Zap zap = new Zap(context);
    try {
      ZMQ.Socket p = socket(SocketType.ROUTER);
      p.setPlainServer(true);
      p.setZapDomain("here");
      p.bind("tcp://127.0.0.1:0");
      String endpoint = p.getLastEndpoint();
      int port = Integer.parseInt(endpoint.substring(endpoint.lastIndexOf(':') + 1));
      try (ZmtpSideChannel d = new ZmtpSideChannel(secret);
          ZmtpSideChannel stranger =
              new ZmtpSideChannel(SharedSecret.of("another-horse-battery"))) {
        ChannelConnection connection = connected(d, p, port);
        assertThat(connection.send(bytes("pull"))).isTrue();
        byte[] identity;
        while ((identity = p.recv(ZMQ.DONTWAIT)) == null) {
          d.poll(5_000_000, recorder);
        }
        assertThat(p.recv()).isEqualTo(bytes("pull"));
        p.sendMore(identity);
        p.send("answer");
        SideChannelContract.pollUntil(() -> !recorder.heard.isEmpty(), d, recorder);
        assertThat(recorder.heard).containsExactly("reply answer");

        Recorder refused = new Recorder();
        ChannelConnection other = stranger.connect("127.0.0.1", port);
        SideChannelContract.pollUntil(
            () -> {
              p.getEvents();
              return refused.closed.contains(other);
            },
            stranger,
            refused);
        assertThat(other.wasConnected()).isFalse();
      }
    } finally {
      sockets.forEach(ZMQ.Socket::close);
      sockets.clear();
      zap.stop();
    }
    assertThat(zap.asked).contains("mooncake4j correct-horse-battery");
  }

  private ZMQ.Socket plainDealer(String password, int port) {
    ZMQ.Socket d = socket(SocketType.DEALER);
    d.setHandshakeIvl(1000);
    d.setPlainUsername("mooncake4j");
    d.setPlainPassword(password);
    d.connect("tcp://127.0.0.1:" + port);
    return d;
  }

  /** Answers their server's question who may come in, in ZeroMQ's form for it (RFC 27). */
  private static final class Zap {
    final List<String> asked = new CopyOnWriteArrayList<>();
    private final ZMQ.Socket socket;
    private final Thread thread;
    private volatile boolean stopping;

    Zap(ZMQ.Context context) {
      socket = context.socket(SocketType.REP);
      socket.setLinger(0);
      socket.setReceiveTimeOut(50);
      socket.bind("inproc://zeromq.zap.01");
      thread = Thread.ofPlatform().daemon().name("zap").start(this::serve);
    }

    private void serve() {
      while (!stopping) {
        String version = socket.recvStr();
        if (version == null) {
          continue;
        }
        List<String> parts = new ArrayList<>();
        while (socket.hasReceiveMore()) {
          parts.add(socket.recvStr());
        }
        String who = parts.get(5) + " " + parts.get(6);
        asked.add(who);
        boolean known = who.equals("mooncake4j correct-horse-battery");
        socket.sendMore(version);
        socket.sendMore(parts.get(0));
        socket.sendMore(known ? "200" : "400");
        socket.sendMore(known ? "OK" : "unknown");
        socket.sendMore("");
        socket.send("");
      }
    }

    void stop() throws InterruptedException {
      stopping = true;
      thread.join();
      socket.close();
    }
  }

  /** A connection whose handshake is done: theirs stalls now and then, on a busy machine. */
  private ChannelConnection connected(SideChannel d, ZMQ.Socket p, int port) {
    while (true) {
      ChannelConnection connection = d.connect("127.0.0.1", port);
      while (!connection.wasConnected() && !recorder.closed.contains(connection)) {
        p.getEvents(); // gives their socket its turn
        d.poll(5_000_000, recorder);
      }
      if (connection.wasConnected()) {
        return connection;
      }
    }
  }
}
