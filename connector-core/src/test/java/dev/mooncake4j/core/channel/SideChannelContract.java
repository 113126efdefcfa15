package dev.mooncake4j.core.channel;

import static dev.mooncake4j.core.channel.Recorder.bytes;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.NullMarked;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What every {@link SideChannel} does. */
@NullMarked
@Timeout(60)
abstract class SideChannelContract {
  /** Generous: it only bounds a hang. */
  static final Duration PATIENCE = Duration.ofSeconds(20);

  private static final long STEP_NANOS = 20_000_000;

  private final List<SideChannel> opened = new ArrayList<>();

  abstract SideChannel create();

  final SideChannel open() {
    SideChannel channel = create();
    opened.add(channel);
    return channel;
  }

  @AfterEach
  void closeAll() {
    opened.forEach(SideChannel::close);
  }

  /** Polls the channels in turn until the condition holds. */
  static void pollUntil(BooleanSupplier condition, Object... channelsAndRecorders) {
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    while (!condition.getAsBoolean()) {
      assertThat(System.nanoTime()).as("still waiting").isLessThan(deadline);
      for (int i = 0; i < channelsAndRecorders.length; i += 2) {
        ((SideChannel) channelsAndRecorders[i])
            .poll(
                STEP_NANOS / channelsAndRecorders.length,
                (SideChannel.Events) channelsAndRecorders[i + 1]);
      }
    }
  }

  @Test
  void aRequestIsAnsweredAsOftenAsThePrefillerLikes() {
    SideChannel p = open();
    SideChannel d = open();
    Recorder atP = new Recorder();
    Recorder atD = new Recorder();
    int port = p.bind("127.0.0.1");
    ChannelConnection connection = d.connect("127.0.0.1", port);
    assertThat(connection.address()).isEqualTo("tcp://127.0.0.1:" + port);
    assertThat(connection.send(bytes("pull"))).isTrue();
    pollUntil(() -> !atP.heard.isEmpty(), p, atP, d, atD);
    PeerIdentity requester = atP.nextRequester();
    p.reply(requester, bytes("one"));
    p.reply(requester, bytes("two"));
    p.reply(requester, new byte[0]);
    pollUntil(() -> atD.heard.size() >= 3, d, atD, p, atP);
    assertThat(atP.heard).containsExactly("request pull");
    assertThat(atD.heard).containsExactly("reply one", "reply two", "reply ");
    assertThat(p.droppedReplies()).isZero();
  }

  @Test
  void messagesOfAnySizeArriveWholeAndInOrder() {
    SideChannel p = open();
    SideChannel d = open();
    Recorder atP = new Recorder();
    int port = p.bind("127.0.0.1");
    ChannelConnection connection = d.connect("127.0.0.1", port);
    List<String> expected = new ArrayList<>();
    for (int size : new int[] {255, 0, 256, 8191, 70_000, 1, 3_000_000}) {
      assertThat(
              connection.send("x".repeat(size).getBytes(java.nio.charset.StandardCharsets.UTF_8)))
          .isTrue();
      expected.add("request " + (size > 100 ? "bytes=" + size : "x".repeat(size)));
    }
    pollUntil(() -> atP.heard.size() >= expected.size(), p, atP, d, new Recorder());
    assertThat(atP.heard).isEqualTo(expected);
  }

  @Test
  void answersGoToTheOneWhoAsked() {
    SideChannel p = open();
    Recorder atP = new Recorder();
    int port = p.bind("127.0.0.1");
    SideChannel d1 = open();
    SideChannel d2 = open();
    Recorder at1 = new Recorder();
    Recorder at2 = new Recorder();
    d1.connect("127.0.0.1", port).send(bytes("1"));
    pollUntil(() -> atP.heard.size() == 1, p, atP, d1, at1);
    d2.connect("127.0.0.1", port).send(bytes("2"));
    pollUntil(() -> atP.heard.size() == 2, p, atP, d2, at2);
    PeerIdentity first = atP.nextRequester();
    PeerIdentity second = atP.nextRequester();
    assertThat(first).isNotEqualTo(second);
    p.reply(second, bytes("for 2"));
    p.reply(first, bytes("for 1"));
    pollUntil(() -> !at1.heard.isEmpty() && !at2.heard.isEmpty(), d1, at1, d2, at2, p, atP);
    assertThat(at1.heard).containsExactly("reply for 1");
    assertThat(at2.heard).containsExactly("reply for 2");
  }

  @Test
  void aConnectionThatCannotBeMadeIsTold() {
    SideChannel p = open();
    int port = p.bind("127.0.0.1");
    p.close();
    SideChannel d = open();
    Recorder atD = new Recorder();
    ChannelConnection connection = d.connect("127.0.0.1", port);
    pollUntil(() -> !atD.heard.isEmpty(), d, atD);
    assertThat(atD.closed).containsExactly(connection);
    assertThat(atD.heard.getFirst()).startsWith("closed cannot connect");
    assertThat(connection.send(bytes("pull"))).isFalse();
    connection.close();
    assertThat(d.poll(1, atD)).isZero();
    assertThat(atD.heard).hasSize(1);
  }

  @Test
  void aPeerThatGoesAwayIsToldAfterItsAnswers() {
    SideChannel p = open();
    SideChannel d = open();
    Recorder atP = new Recorder();
    Recorder atD = new Recorder();
    ChannelConnection connection = d.connect("127.0.0.1", p.bind("127.0.0.1"));
    connection.send(bytes("pull"));
    pollUntil(() -> !atP.heard.isEmpty(), p, atP, d, atD);
    p.reply(atP.nextRequester(), bytes("answer"));
    pollUntil(() -> !atD.heard.isEmpty(), d, atD, p, atP);
    p.close();
    pollUntil(() -> !atD.closed.isEmpty(), d, atD);
    assertThat(atD.heard).hasSize(2).element(0).isEqualTo("reply answer");
    assertThat(atD.heard.get(1)).startsWith("closed connection lost");
    assertThat(atD.closed).containsExactly(connection);
    assertThat(connection.send(bytes("again"))).isFalse();
  }

  @Test
  void aRequesterThatGoesAwayIsToldAfterItsRequests() {
    SideChannel p = open();
    SideChannel d = open();
    Recorder atP = new Recorder();
    Recorder atD = new Recorder();
    int port = p.bind("127.0.0.1");
    ChannelConnection stays = d.connect("127.0.0.1", port);
    stays.send(bytes("stays"));
    pollUntil(() -> atP.heard.size() == 1, p, atP, d, atD);
    ChannelConnection leaves = d.connect("127.0.0.1", port);
    leaves.send(bytes("leaves"));
    pollUntil(() -> atP.heard.size() == 2, p, atP, d, atD);
    PeerIdentity one = atP.nextRequester();
    PeerIdentity two = atP.nextRequester();
    assertThat(atP.gone).isEmpty();
    leaves.close();
    pollUntil(() -> !atP.gone.isEmpty(), p, atP, d, atD);
    assertThat(atP.gone).containsExactly(two);
    d.close();
    pollUntil(() -> atP.gone.size() == 2, p, atP);
    assertThat(atP.gone).containsExactly(two, one);
    assertThat(atD.gone).isEmpty();
  }

  @Test
  void aConnectionThatTheOwnerClosesIsSilent() {
    SideChannel p = open();
    SideChannel d = open();
    Recorder atP = new Recorder();
    Recorder atD = new Recorder();
    int port = p.bind("127.0.0.1");
    ChannelConnection connection = d.connect("127.0.0.1", port);
    connection.send(bytes("pull"));
    pollUntil(() -> !atP.heard.isEmpty(), p, atP, d, atD);
    connection.close();
    connection.close();
    assertThat(connection.send(bytes("more"))).isFalse();
    PeerIdentity gone = atP.nextRequester();
    pollUntil(
        () -> {
          p.reply(gone, bytes("too late"));
          return p.droppedReplies() > 0;
        },
        d,
        atD,
        p,
        atP);
    // A new connection is another requester, and works.
    d.connect("127.0.0.1", port).send(bytes("again"));
    pollUntil(() -> atP.heard.size() == 2, p, atP, d, atD);
    assertThat(atP.nextRequester()).isNotEqualTo(gone);
    assertThat(atD.heard).isEmpty();
  }

  @Test
  void aFailingCallbackLosesNothingElse() {
    SideChannel p = open();
    SideChannel d = open();
    ChannelConnection connection = d.connect("127.0.0.1", p.bind("127.0.0.1"));
    for (String text : List.of("a", "b", "c")) {
      connection.send(bytes(text));
    }
    List<String> taken = new ArrayList<>();
    SideChannel.Events events =
        new Recorder() {
          @Override
          public void onRequest(PeerIdentity from, byte[] payload) {
            taken.add(new String(payload, java.nio.charset.StandardCharsets.UTF_8));
            throw new IllegalStateException("broken callback");
          }
        };
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    int thrown = 0;
    while (thrown < 3) {
      assertThat(System.nanoTime()).isLessThan(deadline);
      try {
        p.poll(STEP_NANOS, events);
      } catch (IllegalStateException e) {
        assertThat(e).hasMessage("broken callback");
        thrown++;
      }
      d.poll(0, new Recorder());
    }
    assertThat(taken).containsExactly("a", "b", "c");
  }

  @Test
  void wakeupEndsAPollThatWaits() throws InterruptedException {
    SideChannel channel = open();
    channel.wakeup();
    channel.wakeup();
    long start = System.nanoTime();
    assertThat(channel.poll(PATIENCE.toNanos(), new Recorder())).isZero();
    Thread waker = Thread.ofPlatform().start(channel::wakeup);
    assertThat(channel.poll(PATIENCE.toNanos(), new Recorder())).isZero();
    assertThat(System.nanoTime() - start).isLessThan(PATIENCE.toNanos());
    waker.join();
  }

  @Test
  void closedMeansClosed() throws InterruptedException {
    SideChannel channel = open();
    ChannelConnection connection = channel.connect("127.0.0.1", channel.bind("127.0.0.1"));
    Thread closer = Thread.ofPlatform().start(channel::close);
    long deadline = System.nanoTime() + PATIENCE.toNanos();
    while (channel.poll(PATIENCE.toNanos(), new Recorder()) >= 0) {
      assertThat(System.nanoTime()).isLessThan(deadline);
    }
    closer.join();
    channel.close();
    Recorder nothing = new Recorder();
    assertThat(channel.poll(PATIENCE.toNanos(), nothing)).isEqualTo(-1);
    assertThat(nothing.heard).isEmpty();
    assertThat(connection.send(bytes("x"))).isFalse();
    connection.close();
    channel.wakeup();
    assertThatThrownBy(() -> channel.connect("127.0.0.1", 1))
        .isInstanceOf(IllegalStateException.class);
    assertThatThrownBy(() -> channel.bind("127.0.0.1")).isInstanceOf(IllegalStateException.class);
  }

  @Test
  void aChannelBindsOnce() {
    SideChannel channel = open();
    assertThat(channel.bind("127.0.0.1")).isBetween(1024, 65535);
    assertThatThrownBy(() -> channel.bind("127.0.0.1"))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining("bound already");
  }
}
