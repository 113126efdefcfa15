package dev.mooncake4j.core.channel;

import static dev.mooncake4j.core.channel.Recorder.bytes;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.KvConnectorException;
import dev.mooncake4j.connector.spi.NanoClock;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.awaitility.Awaitility;
import org.jspecify.annotations.NullMarked;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;

/** The real sockets: the contract, and what the network and broken peers can do to them. */
@NullMarked
class ZmtpSideChannelTest extends SideChannelContract {
  private static final ZmtpSettings QUICK =
      new ZmtpSettings(
          Duration.ofMillis(200),
          Duration.ofMillis(700),
          Duration.ofMillis(900),
          64,
          4 << 20,
          4,
          6,
          5,
          1 << 20,
          null);

  private ZmtpSettings settings = ZmtpSettings.DEFAULT;
  private final Recorder atP = new Recorder();
  private final Recorder atD = new Recorder();

  @Override
  SideChannel create() {
    return new ZmtpSideChannel(settings, NanoClock.SYSTEM);
  }

  /** What a peer by hand does while it waits. */
  private static Runnable pump(SideChannel channel, SideChannel.Events events) {
    return () -> channel.poll(1_000_000, events);
  }

  private SideChannel quick() {
    settings = QUICK;
    return open();
  }

  // ---- broken requesters

  @Test
  void aMessageOfSeveralFramesIsToldAndEndsNothing() throws IOException {
    SideChannel p = open();
    int port = p.bind("127.0.0.1");
    try (RawZmtp d = RawZmtp.dealer(port, pump(p, atP))) {
      d.send("0102" + "aabb" + "0001" + "cc"); // two frames
      d.send("0100" + "0000"); // two empty ones
      d.send("0003" + "616263"); // one: abc
      pollUntil(() -> atP.heard.size() == 3, p, atP);
      assertThat(atP.heard).containsExactly("malformed 2", "malformed 2", "request abc");
      p.reply(atP.nextRequester(), bytes("error"));
      assertThat(d.readMessage()).isEqualTo(bytes("error"));
    }
  }

  @Test
  void nonsenseOnTheWireHarmsItsOwnConnectionAlone() throws IOException {
    SideChannel p = quick();
    int port = p.bind("127.0.0.1");
    SideChannel d = open();
    ChannelConnection good = d.connect("127.0.0.1", port);
    good.send(bytes("before"));
    pollUntil(() -> atP.heard.size() == 1, p, atP, d, atD);
    long seed = Long.getLong("m4j.seed", System.nanoTime());
    System.out.println("ZmtpSideChannelTest seed=" + seed);
    SplittableRandom random = new SplittableRandom(seed);
    for (int i = 0; i < 60; i++) {
      byte[] noise = new byte[random.nextInt(1, 300)];
      random.nextBytes(noise);
      try (RawZmtp bad =
          i % 2 == 0 ? RawZmtp.connect(port, pump(p, atP)) : RawZmtp.dealer(port, pump(p, atP))) {
        bad.send(noise);
        p.poll(0, new Recorder());
      } catch (IOException e) {
        assertThat(i).as("may be closed in our face, but must not be refused").isNotNegative();
      }
    }
    try (RawZmtp http = RawZmtp.connect(port, pump(p, atP))) {
      http.send(bytes("GET /query HTTP/1.1\r\nHost: x\r\n\r\n"));
      p.poll(0, new Recorder());
    }
    List<String> heard = new ArrayList<>(List.of("request before"));
    assertThat(atP.heard).isEqualTo(heard);
    good.send(bytes("after"));
    pollUntil(() -> atP.heard.contains("request after"), p, atP, d, atD);
    assertThat(atD.heard).isEmpty();
  }

  @Test
  void aFrameOverTheLimitEndsItsConnection() throws IOException {
    SideChannel p = quick();
    int port = p.bind("127.0.0.1");
    for (String length : List.of("0000000000100001", "00000000ffffffff", "7fffffffffffffff")) {
      try (RawZmtp d = RawZmtp.dealer(port, pump(p, atP))) {
        d.send("02" + length + "00");
        p.poll(0, atP);
        assertThatThrownBy(d::readMessage).isInstanceOf(IOException.class);
      }
    }
    assertThat(atP.heard).isEmpty();
    try (RawZmtp d = RawZmtp.dealer(port, pump(p, atP))) {
      byte[] largest = new byte[1 << 20];
      d.send("02" + "0000000000100000");
      d.send(largest);
      pollUntil(() -> atP.heard.size() == 1, p, atP);
      assertThat(atP.heard).containsExactly("request bytes=1048576");
    }
  }

  @Test
  void aRequesterThatDoesNotReadHoldsNobodyUp() throws IOException {
    SideChannel p = quick();
    int port = p.bind("127.0.0.1");
    byte[] large = new byte[200_000];
    try (RawZmtp stopped = RawZmtp.dealer(port, pump(p, atP))) {
      stopped.send("0001" + "73");
      pollUntil(() -> atP.heard.size() == 1, p, atP);
      PeerIdentity silent = atP.nextRequester();
      long start = System.nanoTime();
      int sent = 0;
      while (p.droppedReplies() < 10) {
        p.reply(silent, large);
        sent++;
        if (sent % 16 == 0) {
          p.poll(1_000_000, atP);
        }
        assertThat(System.nanoTime() - start).isLessThan(PATIENCE.toNanos());
      }
      assertThat(sent).isLessThan(2_000);

      SideChannel d = open();
      ChannelConnection good = d.connect("127.0.0.1", port);
      good.send(bytes("pull"));
      pollUntil(() -> atP.heard.size() == 2, p, atP, d, atD);
      p.reply(atP.nextRequester(), bytes("answer"));
      pollUntil(() -> !atD.heard.isEmpty(), d, atD, p, atP);
      assertThat(atD.heard).containsExactly("reply answer");
      long closing = System.nanoTime();
      p.close();
      assertThat(System.nanoTime() - closing).isLessThan(Duration.ofSeconds(2).toNanos());
    }
  }

  @Test
  void acceptedConnectionsAreBounded() throws IOException {
    SideChannel p = quick();
    int port = p.bind("127.0.0.1");
    List<RawZmtp> peers = new ArrayList<>();
    try {
      for (int i = 0; i < QUICK.maxPeers(); i++) {
        String from = i < QUICK.maxPeersOfHost() ? "127.0.0.2" : "127.0.0.1";
        peers.add(RawZmtp.dealer(from, port, pump(p, atP)));
      }
      assertThatThrownBy(() -> RawZmtp.dealer(port, pump(p, atP)).readMessage())
          .isInstanceOf(IOException.class);
      peers.removeFirst().close();
      Awaitility.await()
          .atMost(PATIENCE)
          .ignoreExceptions()
          .until(() -> peers.add(RawZmtp.dealer(port, pump(p, atP))));
      peers.getLast().send("0001" + "61");
      pollUntil(() -> atP.heard.size() == 1, p, atP);
    } finally {
      for (RawZmtp peer : peers) {
        peer.close();
      }
    }
  }

  @Test
  void oneHostLeavesRoomForTheOthers() throws IOException {
    SideChannel p = quick();
    int port = p.bind("127.0.0.1");
    List<RawZmtp> peers = new ArrayList<>();
    try {
      for (int i = 0; i < QUICK.maxPeersOfHost(); i++) {
        peers.add(RawZmtp.dealer("127.0.0.2", port, pump(p, atP)));
      }
      assertThatThrownBy(() -> RawZmtp.dealer("127.0.0.2", port, pump(p, atP)).readMessage())
          .isInstanceOf(IOException.class);
      peers.add(RawZmtp.dealer(port, pump(p, atP)));
      peers.getLast().send("0001" + "61");
      pollUntil(() -> atP.heard.size() == 1, p, atP);
      peers.removeFirst().close();
      Awaitility.await()
          .atMost(PATIENCE)
          .ignoreExceptions()
          .until(() -> peers.add(RawZmtp.dealer("127.0.0.2", port, pump(p, atP))));
    } finally {
      for (RawZmtp peer : peers) {
        peer.close();
      }
    }
  }

  // ---- broken prefillers

  @Test
  void aPeerThatAcceptsAndSaysNothingIsGivenUp() throws IOException {
    SideChannel d = quick();
    try (ServerSocketChannel server = RawZmtp.listen()) {
      ChannelConnection connection = d.connect("127.0.0.1", RawZmtp.port(server));
      assertThat(connection.send(bytes("pull"))).isTrue();
      pollUntil(() -> !atD.heard.isEmpty(), d, atD);
      assertThat(atD.heard)
          .containsExactly(
              "closed connection lost before the handshake was done: nothing within 900 ms");
      assertThat(atD.closed).containsExactly(connection);
      assertThat(connection.send(bytes("pull"))).isFalse();
    }
  }

  @Test
  void aPeerThatClosesOrSpeaksAnotherLanguageIsGivenUp() throws IOException {
    SideChannel d = quick();
    try (ServerSocketChannel server = RawZmtp.listen()) {
      d.connect("127.0.0.1", RawZmtp.port(server));
      RawZmtp.accept(server, pump(d, atD)).close();
      pollUntil(() -> atD.heard.size() == 1, d, atD);
      d.connect("127.0.0.1", RawZmtp.port(server));
      try (RawZmtp http = RawZmtp.accept(server, pump(d, atD))) {
        http.send(bytes("HTTP/1.1 400 Bad Request\r\n\r\n"));
        pollUntil(() -> atD.heard.size() == 2, d, atD);
      }
      assertThat(atD.closed).doesNotHaveDuplicates().hasSize(2);
      assertThat(atD.heard.get(0)).endsWith("closed by the peer");
      assertThat(atD.heard.get(1)).endsWith("not a ZeroMQ peer");
    }
  }

  @Test
  void anAnswerOfSeveralFramesEndsTheConnection() throws IOException {
    SideChannel d = open();
    try (ServerSocketChannel server = RawZmtp.listen()) {
      ChannelConnection connection = d.connect("127.0.0.1", RawZmtp.port(server));
      try (RawZmtp p = RawZmtp.router(server, pump(d, atD))) {
        p.send("0001" + "61" + "0101" + "62" + "0001" + "63" + "0001" + "64");
        pollUntil(() -> !atD.closed.isEmpty(), d, atD);
        assertThat(atD.heard.getFirst()).isEqualTo("reply a");
        assertThat(atD.heard.getLast())
            .isEqualTo("closed connection lost: answer of several frames, frames=2");
        assertThat(connection.send(bytes("x"))).isFalse();
      }
    }
  }

  @Test
  void aBlackHoleIsNoticedByHeartbeat() throws IOException {
    SideChannel d = quick();
    try (ServerSocketChannel server = RawZmtp.listen()) {
      ChannelConnection connection = d.connect("127.0.0.1", RawZmtp.port(server));
      connection.send(bytes("pull"));
      try (RawZmtp p = RawZmtp.router(server, pump(d, atD))) {
        assertThat(p.readMessage()).isEqualTo(bytes("pull"));
        pollUntil(() -> !atD.heard.isEmpty(), d, atD);
        assertThat(atD.heard).containsExactly("closed connection lost: silent for 700 ms");
        assertThat(atD.closed).containsExactly(connection);
      }
    }
  }

  @Test
  void aBlackHoleIsNoticedBehindAFullQueueToo() throws IOException {
    SideChannel d = quick();
    try (ServerSocketChannel server = RawZmtp.listen()) {
      ChannelConnection connection = d.connect("127.0.0.1", RawZmtp.port(server));
      try (RawZmtp p = RawZmtp.router(server, pump(d, atD))) {
        byte[] large = new byte[1 << 20];
        while (connection.send(large)) {
          d.poll(0, atD);
        }
        pollUntil(() -> !atD.heard.isEmpty(), d, atD);
        assertThat(atD.heard).containsExactly("closed connection lost: silent for 700 ms");
        p.send("00");
      }
    }
  }

  @Test
  void aSlowReaderIsNotTakenForDead() throws IOException {
    AtomicLong clock = new AtomicLong();
    try (ZmtpSideChannel d = new ZmtpSideChannel(QUICK, clock::get);
        ServerSocketChannel server = RawZmtp.listen()) {
      ChannelConnection connection = d.connect("127.0.0.1", RawZmtp.port(server));
      try (RawZmtp p = RawZmtp.router(server, pump(d, atD))) {
        byte[] message = new byte[1 << 18];
        while (connection.send(message)) {
          d.poll(0, atD);
        }
        // Reads on and on, and says nothing: its answer to the heartbeat waits behind megabytes.
        long until = 3 * QUICK.heartbeatTimeout().toNanos();
        while (clock.get() < until) {
          p.readMessage();
          clock.addAndGet(40_000_000);
          connection.send(message);
          for (int i = 0; i < 3; i++) {
            d.poll(1_000_000, atD);
          }
        }
        assertThat(atD.heard).isEmpty();
        // Then it stops.
        for (int i = 0; atD.heard.isEmpty(); i++) {
          assertThat(i).isLessThan(100);
          clock.addAndGet(QUICK.heartbeatTimeout().toNanos());
          d.poll(1_000_000, atD);
        }
        assertThat(atD.heard).containsExactly("closed connection lost: silent for 700 ms");
      }
    }
  }

  @Test
  void aPauseOfOursIsNotTakenForOneOfThePeer() throws IOException {
    settings = QUICK;
    AtomicLong clock = new AtomicLong();
    ZmtpSideChannel d = new ZmtpSideChannel(QUICK, clock::get);
    try (d;
        ServerSocketChannel server = RawZmtp.listen()) {
      d.connect("127.0.0.1", RawZmtp.port(server));
      try (RawZmtp p = RawZmtp.router(server, pump(d, atD))) {
        d.poll(0, atD);
        clock.addAndGet(QUICK.heartbeatInterval().toNanos());
        byte[] ping = p.readFrame();
        assertThat(new String(ping, 3, 4, StandardCharsets.US_ASCII)).isEqualTo("PING");
        p.send("0405" + "04504f4e47"); // PONG
        // We are stopped for an hour; the answer has come in the meantime.
        clock.addAndGet(Duration.ofHours(1).toNanos());
        for (int i = 0; i < 20; i++) {
          d.poll(5_000_000, atD);
        }
        assertThat(atD.heard).isEmpty();
        // Asked again after another hour, and this time without an answer.
        clock.addAndGet(Duration.ofHours(1).toNanos());
        d.poll(0, atD);
        assertThat(atD.heard).isEmpty();
        clock.addAndGet(QUICK.heartbeatTimeout().toNanos());
        pollUntil(() -> !atD.heard.isEmpty(), d, atD);
        assertThat(atD.heard).containsExactly("closed connection lost: silent for 700 ms");
      }
    }
  }

  @Test
  void pingsAreAnsweredAndOtherCommandsPassedOver() throws IOException {
    SideChannel p = open();
    int port = p.bind("127.0.0.1");
    try (RawZmtp d = RawZmtp.dealer(port, pump(p, atP))) {
      d.send("0409" + "0450494e47" + "0000" + "abcd"); // PING with a context
      assertThat(HexFormat.of().formatHex(d.readFrame())).isEqualTo("040704504f4e47" + "abcd");
      d.send("0417" + "0450494e47" + "0001" + "00".repeat(16)); // as long as it may be
      assertThat(HexFormat.of().formatHex(d.readFrame()))
          .isEqualTo("0415" + "04504f4e47" + "00".repeat(16));
      d.send("0405" + "04504f4e47" + "0403" + "024849" + "0001" + "61"); // PONG, "HI", a message
      pollUntil(() -> atP.heard.size() == 1, p, atP);
    }
  }

  @Test
  void handshakesThatDoNotFitEndTheConnection() throws IOException {
    SideChannel p = open();
    int port = p.bind("127.0.0.1");
    String greeting = RawZmtp.GREETING;
    for (String bad :
        List.of(
            "01", // ZMTP 1
            "ff00000000000000007f" + "01" + greeting.substring(22), // ZMTP 2
            greeting.replace("4e554c4c", "43555256"), // CURV
            greeting + "0001" + "61", // a message first
            greeting + "0405" + "04504f4e47", // PONG first
            greeting + "040b" + "054552524f52" + "04" + "6e6f7065", // ERROR nope
            greeting + "0406" + "055245414459", // no socket type
            greeting + "0407" + "055245414459" + "0b", // cut short
            greeting + RawZmtp.READY_DEALER.replace("4445414c4552", "505542202020"), // PUB
            greeting + RawZmtp.READY_DEALER + RawZmtp.READY_DEALER,
            greeting + RawZmtp.READY_DEALER + "0500", // a command with more to come
            greeting + RawZmtp.READY_DEALER + "0800", // an unknown flag
            greeting + RawZmtp.READY_DEALER + "0401" + "09", // a name beyond the command
            greeting + RawZmtp.READY_DEALER + "0400",
            greeting + RawZmtp.READY_DEALER + "0405" + "0450494e47", // PING without a time
            greeting + RawZmtp.READY_DEALER + "06" + "0000000000002001")) { // a huge command
      try (RawZmtp d = RawZmtp.connect(port, pump(p, atP))) {
        d.send(bad);
        assertThatThrownBy(() -> d.read(10_000)).as(bad).hasMessageContaining("closed");
      }
    }
    assertThat(atP.heard).isEmpty();
  }

  @Test
  void anIdlePeerThatAnswersHeartbeatsIsKept() {
    settings = QUICK;
    SideChannel p = open();
    SideChannel d = open();
    ChannelConnection connection = d.connect("127.0.0.1", p.bind("127.0.0.1"));
    connection.send(bytes("pull"));
    pollUntil(() -> !atP.heard.isEmpty(), p, atP, d, atD);
    long until = System.nanoTime() + 3 * QUICK.heartbeatTimeout().toNanos();
    while (System.nanoTime() < until) {
      d.poll(50_000_000, atD);
      p.poll(0, atP);
    }
    assertThat(atD.heard).isEmpty();
    p.reply(atP.nextRequester(), bytes("late"));
    pollUntil(() -> !atD.heard.isEmpty(), d, atD);
    assertThat(atD.heard).containsExactly("reply late");
  }

  @Test
  void aPrefillerThatDoesNotReadHoldsNobodyUp() throws IOException {
    SideChannel d = open();
    try (ServerSocketChannel server = RawZmtp.listen()) {
      ChannelConnection stopped = d.connect("127.0.0.1", RawZmtp.port(server));
      try (RawZmtp p = RawZmtp.router(server, pump(d, atD))) {
        byte[] large = new byte[20_000];
        long start = System.nanoTime();
        int sent = 0;
        while (stopped.send(large)) {
          sent++;
          if (sent % 64 == 0) {
            d.poll(0, atD);
          }
          assertThat(System.nanoTime() - start).isLessThan(PATIENCE.toNanos());
        }
        assertThat(sent).isBetween(1000, 2 * ZmtpSettings.DEFAULT.queueMessages());
        SideChannel p2 = open();
        ChannelConnection good = d.connect("127.0.0.1", p2.bind("127.0.0.1"));
        good.send(bytes("pull"));
        pollUntil(() -> !atP.heard.isEmpty(), p2, atP, d, atD);
        long closing = System.nanoTime();
        stopped.close();
        d.close();
        assertThat(System.nanoTime() - closing).isLessThan(Duration.ofSeconds(2).toNanos());
        assertThat(p.readMessage()).hasSize(large.length);
      }
    }
  }

  @Test
  void connectionsAreBounded() {
    SideChannel p = quick();
    int port = p.bind("127.0.0.1");
    SideChannel d = open();
    List<ChannelConnection> connections = new ArrayList<>();
    for (int i = 0; i < QUICK.maxConnections(); i++) {
      connections.add(d.connect("127.0.0.1", port));
    }
    ChannelConnection oneMore = d.connect("127.0.0.1", port);
    pollUntil(() -> !atD.closed.isEmpty(), d, atD);
    assertThat(atD.closed).containsExactly(oneMore);
    assertThat(atD.heard).containsExactly("closed cannot connect: too many connections, limit=4");
    connections.getFirst().close();
    ChannelConnection fits = d.connect("127.0.0.1", port);
    fits.send(bytes("fits"));
    pollUntil(() -> atP.heard.contains("request fits"), p, atP, d, atD);
  }

  // ---- addresses

  @Test
  void namesAreLookedUpAside() {
    SideChannel p = open();
    int port = p.bind("localhost");
    SideChannel d = open();
    ChannelConnection connection = d.connect("localhost", port);
    assertThat(connection.address()).isEqualTo("tcp://localhost:" + port);
    connection.send(bytes("before the name is known"));
    pollUntil(() -> !atP.heard.isEmpty(), p, atP, d, atD);
    ChannelConnection unknown = d.connect("no-such-host.invalid", 1);
    unknown.send(bytes("x"));
    pollUntil(() -> !atD.heard.isEmpty(), d, atD);
    assertThat(atD.heard.getFirst())
        .isEqualTo("closed cannot connect: unknown host, host=no-such-host.invalid");
    ChannelConnection closedEarly = d.connect("localhost", port);
    closedEarly.close();
    d.connect("localhost", port).send(bytes("last"));
    pollUntil(() -> atP.heard.contains("request last"), p, atP, d, atD);
  }

  @Test
  void ipv6LiteralsWork() throws IOException {
    try (ServerSocket probe = new ServerSocket(0, 1, InetAddress.ofLiteral("::1"))) {
      assertThat(probe.isBound()).isTrue();
    } catch (IOException e) {
      Assumptions.abort("no IPv6 here: " + e.getMessage());
    }
    SideChannel p = open();
    int port = p.bind("[::1]");
    SideChannel d = open();
    for (String host : List.of("::1", "[::1]")) {
      ChannelConnection connection = d.connect(host, port);
      assertThat(connection.address()).isEqualTo("tcp://[::1]:" + port);
      connection.send(bytes(host));
      pollUntil(() -> atP.heard.contains("request " + host), p, atP, d, atD);
    }
  }

  @Test
  void anAddressThatIsNotOursCannotBeBound() {
    SideChannel channel = open();
    for (String host : List.of("192.0.2.1", "no-such-host.invalid")) {
      assertThatThrownBy(() -> channel.bind(host))
          .isInstanceOf(KvConnectorException.class)
          .hasMessageContaining("host=" + host);
    }
    assertThat(channel.bind("0.0.0.0")).isPositive();
  }

  // ---- close

  @Test
  void closeWithinACallbackIsFine() {
    SideChannel p = open();
    SideChannel d = open();
    ChannelConnection connection = d.connect("127.0.0.1", p.bind("127.0.0.1"));
    connection.send(bytes("1"));
    connection.send(bytes("2"));
    Recorder closing =
        new Recorder() {
          @Override
          public void onRequest(PeerIdentity from, byte[] payload) {
            super.onRequest(from, payload);
            p.close();
          }
        };
    pollUntil(() -> !closing.heard.isEmpty(), p, closing, d, atD);
    assertThat(closing.heard).containsExactly("request 1");
    assertThat(p.poll(0, closing)).isEqualTo(-1);
    p.reply(closing.nextRequester(), bytes("x"));
    assertThat(p.droppedReplies()).isEqualTo(1);
  }

  @Test
  void closeReturnsInTimeThoughTheOwnerIsBusy() throws Exception {
    ZmtpSideChannel p = new ZmtpSideChannel();
    SideChannel d = open();
    ChannelConnection connection = d.connect("127.0.0.1", p.bind("127.0.0.1"));
    connection.send(bytes("1"));
    CountDownLatch busy = new CountDownLatch(1);
    CountDownLatch letGo = new CountDownLatch(1);
    Recorder waiting =
        new Recorder() {
          @Override
          public void onRequest(PeerIdentity from, byte[] payload) {
            busy.countDown();
            try {
              assertThat(letGo.await(60, TimeUnit.SECONDS)).isTrue();
            } catch (InterruptedException e) {
              throw new IllegalStateException(e);
            }
          }
        };
    Thread owner =
        Thread.ofPlatform()
            .start(
                () -> {
                  while (p.poll(1_000_000_000, waiting) >= 0) {
                    d.wakeup();
                  }
                });
    pollUntil(() -> busy.getCount() == 0, d, atD);
    long start = System.nanoTime();
    p.close();
    assertThat(System.nanoTime() - start).isLessThan(Duration.ofSeconds(2).toNanos());
    letGo.countDown();
    owner.join();
    // The owner has closed the sockets on its way out: the other side sees it.
    pollUntil(() -> !atD.closed.isEmpty(), d, atD);
  }

  @Test
  void anInterruptOfTheOwnerBreaksNothing() {
    SideChannel p = open();
    SideChannel d = open();
    ChannelConnection connection = d.connect("127.0.0.1", p.bind("127.0.0.1"));
    for (int i = 0; i < 20; i++) {
      Thread.currentThread().interrupt();
      connection.send(bytes("" + i));
      Thread.currentThread().interrupt();
      d.poll(0, atD);
      Thread.currentThread().interrupt();
      p.poll(1_000_000, atP);
      Thread.currentThread().interrupt();
      d.wakeup();
    }
    assertThat(Thread.interrupted()).isTrue();
    pollUntil(() -> atP.heard.size() == 20, p, atP, d, atD);
    Thread.currentThread().interrupt();
    p.reply(atP.nextRequester(), bytes("answer"));
    pollUntil(() -> !atD.heard.isEmpty(), d, atD, p, atP);
    assertThat(atD.heard).containsExactly("reply answer");
    Thread.currentThread().interrupt();
    d.close();
    assertThat(Thread.interrupted()).isTrue();
  }

  @Test
  void opensAndClosesLeaveNothingBehind() throws IOException {
    openUseClose(5);
    long files = openFiles();
    openUseClose(200);
    Awaitility.await()
        .atMost(PATIENCE)
        .untilAsserted(
            () -> {
              assertThat(threads()).isEmpty();
              assertThat(openFiles()).isLessThanOrEqualTo(files + 3);
            });
  }

  @Test
  void connectionsThatEndLeaveNothingBehind() throws IOException {
    SideChannel p = open();
    SideChannel d = open();
    int port = p.bind("127.0.0.1");
    long files = openFiles();
    for (int i = 0; i < 100; i++) {
      ChannelConnection connection = d.connect("127.0.0.1", port);
      connection.send(bytes("x"));
      int expected = i + 1;
      pollUntil(() -> atP.heard.size() == expected, p, atP, d, atD);
      connection.close();
    }
    pollUntil(
        () -> {
          try {
            return openFiles() <= files + 3;
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        },
        p,
        atP,
        d,
        atD);
  }

  private void openUseClose(int times) {
    for (int i = 0; i < times; i++) {
      ZmtpSideChannel p = new ZmtpSideChannel();
      ZmtpSideChannel d = new ZmtpSideChannel();
      Recorder atP = new Recorder();
      int port = p.bind("127.0.0.1");
      ChannelConnection connection = d.connect("127.0.0.1", port);
      connection.send(bytes("x"));
      if (i % 4 == 0) {
        pollUntil(() -> !atP.heard.isEmpty(), p, atP, d, atD);
      } else if (i % 4 == 1) {
        p.close();
      }
      d.close();
      p.close();
    }
  }

  private static long openFiles() throws IOException {
    try (Stream<Path> files = Files.list(Path.of("/proc/self/fd"))) {
      return files.count();
    }
  }

  private static List<String> threads() {
    return Thread.getAllStackTraces().keySet().stream()
        .map(Thread::getName)
        .filter(name -> name.startsWith("m4j-"))
        .toList();
  }

  // ---- how fast

  @Test
  void tellsTheRoundTripTime() throws InterruptedException {
    ZmtpSideChannel p = new ZmtpSideChannel();
    int port = p.bind("127.0.0.1");
    Thread prefiller =
        Thread.ofPlatform()
            .start(
                () -> {
                  Recorder echo =
                      new Recorder() {
                        @Override
                        public void onRequest(PeerIdentity from, byte[] payload) {
                          p.reply(from, payload);
                        }
                      };
                  while (p.poll(1_000_000_000, echo) >= 0) {
                    echo.heard.clear();
                  }
                });
    SideChannel d = open();
    ChannelConnection connection = d.connect("127.0.0.1", port);
    int rounds = 3000;
    long[] nanos = new long[rounds];
    byte[] payload = new byte[400];
    for (int i = 0; i < rounds; i++) {
      long start = System.nanoTime();
      assertThat(connection.send(payload)).isTrue();
      atD.heard.clear();
      while (atD.heard.isEmpty()) {
        assertThat(d.poll(PATIENCE.toNanos(), atD)).isNotNegative();
      }
      nanos[i] = System.nanoTime() - start;
      assertThat(atD.heard).containsExactly("reply bytes=400");
    }
    Arrays.sort(nanos);
    System.out.printf(
        "side channel round trip, 400 bytes, loopback: min %.0f us, median %.0f us, p99 %.0f us%n",
        nanos[0] / 1e3, nanos[rounds / 2] / 1e3, nanos[rounds * 99 / 100] / 1e3);
    p.close();
    prefiller.join();
  }
}
