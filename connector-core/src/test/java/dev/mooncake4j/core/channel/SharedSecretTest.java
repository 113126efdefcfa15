package dev.mooncake4j.core.channel;

import static dev.mooncake4j.core.channel.Recorder.bytes;
import static dev.mooncake4j.core.channel.SideChannelContract.pollUntil;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.SharedSecret;
import dev.mooncake4j.connector.spi.NanoClock;
import java.io.EOFException;
import java.io.IOException;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.NullMarked;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Side channels with a shared secret: who has it, who has another, and who has none. */
@NullMarked
@Timeout(60)
class SharedSecretTest {
  private static final SharedSecret SECRET = SharedSecret.of("correct-horse-battery");
  private static final SharedSecret OTHER = SharedSecret.of("another-horse-battery");

  private static final String GREETING_PLAIN =
      "ff00000000000000017f0301504c41494e" + "00".repeat(47);
  private static final String HELLO =
      command("HELLO", "0a" + hex("mooncake4j") + "15" + hex("correct-horse-battery"));
  private static final String INITIATE =
      command("INITIATE", "0b" + hex("Socket-Type") + "00000006" + hex("DEALER"));

  private final List<SideChannel> open = new ArrayList<>();
  private final Recorder atP = new Recorder();
  private final Recorder atD = new Recorder();

  private ZmtpSideChannel channel(@Nullable SharedSecret secret) {
    ZmtpSideChannel channel = new ZmtpSideChannel(secret);
    open.add(channel);
    return channel;
  }

  @AfterEach
  void close() {
    open.forEach(SideChannel::close);
  }

  private static String hex(String text) {
    return HexFormat.of().formatHex(text.getBytes(StandardCharsets.US_ASCII));
  }

  private static String command(String name, String rest) {
    String body = "%02x".formatted(name.length()) + hex(name) + rest;
    return "04" + "%02x".formatted(body.length() / 2) + body;
  }

  /** Asks a prefiller something; returns what comes of it. */
  private String ask(ZmtpSideChannel d, SideChannel p, int port) {
    ChannelConnection connection = d.connect("127.0.0.1", port);
    assertThat(connection.send(bytes("pull"))).isTrue();
    int heard = atD.heard.size();
    pollUntil(
        () -> {
          if (!atP.requesters.isEmpty()) {
            p.reply(atP.nextRequester(), bytes("answer"));
          }
          return atD.heard.size() > heard;
        },
        d,
        atD,
        p,
        atP);
    assertThat(connection.wasRefused()).isFalse();
    return atD.heard.getLast();
  }

  @Test
  void whoHasItIsAnswered() {
    ZmtpSideChannel p = channel(SECRET);
    int port = p.bind("127.0.0.1");
    assertThat(ask(channel(SECRET), p, port)).isEqualTo("reply answer");
    assertThat(atP.heard).containsExactly("request pull");
    assertThat(p.refusedPeers()).isZero();
  }

  @Test
  void aWrongOneIsToldSoAndHarmsNobodyElse() {
    ZmtpSideChannel p = channel(SECRET);
    int port = p.bind("127.0.0.1");
    ZmtpSideChannel good = channel(SECRET);
    ChannelConnection kept = good.connect("127.0.0.1", port);
    kept.send(bytes("before"));
    Recorder atGood = new Recorder();
    pollUntil(() -> atP.heard.size() == 1, p, atP, good, atGood);
    PeerIdentity requester = atP.nextRequester();

    assertThat(ask(channel(OTHER), p, port))
        .isEqualTo(
            "closed connection lost before the handshake was done: refused by the peer, reason=the"
                + " shared_secret is not the prefiller's: set the same on both");

    assertThat(p.refusedPeers()).isEqualTo(1);
    assertThat(atP.heard).containsExactly("request before");
    p.reply(requester, bytes("answer"));
    pollUntil(() -> !atGood.heard.isEmpty(), p, atP, good, atGood);
    assertThat(atGood.heard).containsExactly("reply answer");
  }

  @Test
  void oneWhoHasNoneIsToldWhatToSet() {
    ZmtpSideChannel p = channel(SECRET);
    int port = p.bind("127.0.0.1");
    assertThat(ask(channel(null), p, port))
        .isEqualTo(
            "closed connection lost before the handshake was done: the prefiller asks for a"
                + " shared_secret and none is set here, mechanism=PLAIN: set the prefiller's");
    assertThat(atP.heard).isEmpty();
  }

  @Test
  void aPrefillerThatAsksForNoneIsNotToldIt() throws IOException {
    ZmtpSideChannel p = channel(null);
    int port = p.bind("127.0.0.1");
    ZmtpSideChannel d = channel(SECRET);
    assertThat(ask(d, p, port))
        .isEqualTo(
            "closed connection lost before the handshake was done: the prefiller asks for no"
                + " shared_secret and one is set here, mechanism=NULL: set the same on both, or on"
                + " neither");
    assertThat(atP.heard).isEmpty();
    assertThat(p.refusedPeers()).as("as any peer that speaks otherwise").isZero();

    try (ServerSocketChannel server = RawZmtp.listen()) {
      d.connect("127.0.0.1", RawZmtp.port(server)).send(bytes("pull"));
      int closed = atD.closed.size();
      try (RawZmtp raw = RawZmtp.accept(server, () -> d.poll(1_000_000, atD))) {
        raw.send(RawZmtp.GREETING);
        raw.read(64);
        assertThatThrownBy(() -> raw.read(1)).isInstanceOf(EOFException.class);
      }
      assertThat(atD.closed).hasSize(closed + 1);
    }
  }

  @Test
  void theHandshakeIsRfc24s() throws IOException {
    ZmtpSideChannel p = channel(SECRET);
    int port = p.bind("127.0.0.1");
    try (RawZmtp raw = RawZmtp.connect(port, () -> p.poll(1_000_000, atP))) {
      raw.send(GREETING_PLAIN);
      byte[] greeting = raw.read(64);
      assertThat(HexFormat.of().formatHex(greeting))
          .isEqualTo(
              "ff00000000000000017f0301504c41494e" + "00".repeat(15) + "01" + "00".repeat(31));
      raw.send(HELLO);
      assertThat(HexFormat.of().formatHex(raw.readFrame())).isEqualTo(command("WELCOME", ""));
      raw.send(INITIATE);
      assertThat(HexFormat.of().formatHex(raw.readFrame())).isEqualTo(RawZmtp.READY_ROUTER);
      raw.send("000161");
      pollUntil(() -> atP.heard.size() == 1, p, atP);
    }
    ZmtpSideChannel d = channel(SECRET);
    try (ServerSocketChannel server = RawZmtp.listen()) {
      ChannelConnection connection = d.connect("127.0.0.1", RawZmtp.port(server));
      try (RawZmtp raw = RawZmtp.accept(server, () -> d.poll(1_000_000, atD))) {
        assertThat(HexFormat.of().formatHex(raw.read(64))).isEqualTo(GREETING_PLAIN);
        raw.send("ff00000000000000017f0300504c41494e" + "00".repeat(47)); // ZMTP 3.0 has it too
        assertThat(HexFormat.of().formatHex(raw.readFrame())).isEqualTo(HELLO);
        assertThat(connection.wasConnected()).isFalse();
        raw.send(command("WELCOME", ""));
        assertThat(HexFormat.of().formatHex(raw.readFrame()))
            .isEqualTo(command("INITIATE", RawZmtp.READY_DEALER.substring(4 + 12)));
        raw.send(RawZmtp.READY_ROUTER);
        pollUntil(connection::wasConnected, d, atD);
      }
    }
  }

  @Test
  void nothingIsHeardOfWhoDoesNotKeepTheOrder() throws IOException {
    ZmtpSideChannel p = channel(SECRET);
    int port = p.bind("127.0.0.1");
    String message = "000161";
    for (List<String> said :
        List.of(
            List.of(message),
            List.of(RawZmtp.READY_DEALER, message),
            List.of(INITIATE, message),
            List.of(command("WELCOME", ""), message),
            List.of(HELLO, message),
            List.of(HELLO, HELLO, INITIATE, message),
            List.of(HELLO, RawZmtp.READY_DEALER, message),
            List.of(HELLO, command("INITIATE", ""), message),
            List.of(command("HELLO", ""), INITIATE, message),
            List.of(command("HELLO", "0a" + hex("mooncake4j")), INITIATE, message),
            List.of(command("HELLO", "0a" + hex("mooncake4j") + "00"), INITIATE, message),
            List.of(
                command("HELLO", "00" + "15" + hex("correct-horse-battery")), INITIATE, message),
            List.of(
                command("HELLO", "0a" + hex("mooncake4j") + "14" + hex("correct-horse-batter")),
                INITIATE,
                message),
            List.of(
                command(
                    "HELLO", "0a" + hex("mooncake4j") + "15" + hex("correct-horse-battery") + "00"),
                INITIATE,
                message))) {
      try (RawZmtp raw = RawZmtp.connect(port, () -> p.poll(1_000_000, atP))) {
        raw.send(GREETING_PLAIN + String.join("", said));
        assertThatThrownBy(
                () -> {
                  while (true) {
                    raw.read(1);
                  }
                })
            .as("ends: %s", said)
            .isInstanceOf(IOException.class)
            .hasMessageNotContaining("still waiting");
      }
    }
    try (RawZmtp raw = RawZmtp.connect(port, () -> p.poll(1_000_000, atP))) {
      raw.send(RawZmtp.GREETING);
      raw.read(64);
      String error = new String(raw.readFrame(), StandardCharsets.US_ASCII);
      assertThat(error)
          .contains("ERROR")
          .endsWith("a shared_secret is asked for: set the prefiller's");
      assertThatThrownBy(() -> raw.read(1)).isInstanceOf(IOException.class);
    }
    assertThat(atP.heard).isEmpty();
    assertThat(ask(channel(SECRET), p, port)).isEqualTo("reply answer");
  }

  @Test
  void whoKeepsTryingIsCountedAndDoesNotFillTheLog() throws IOException {
    AtomicLong clock = new AtomicLong(Long.MAX_VALUE - 1);
    ZmtpSideChannel p =
        new ZmtpSideChannel(ZmtpSettings.DEFAULT.withSecret(SECRET), (NanoClock) clock::get);
    open.add(p);
    int port = p.bind("127.0.0.1");
    for (int i = 1; i <= 5; i++) {
      try (RawZmtp raw = RawZmtp.connect(port, () -> p.poll(1_000_000, atP))) {
        raw.send(RawZmtp.GREETING);
        raw.read(64);
        raw.readFrame();
      }
      assertThat(p.refusedPeers()).isEqualTo(i);
      assertThat(p.refusalsLogged()).isEqualTo(i < 5 ? 1 : 2);
      if (i == 4) {
        clock.addAndGet(60_000_000_000L);
      }
    }
  }
}
