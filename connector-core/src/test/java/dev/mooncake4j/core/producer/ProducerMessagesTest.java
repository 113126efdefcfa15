package dev.mooncake4j.core.producer;

import static dev.mooncake4j.core.rig.RawDecoder.entry;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RawDecoder;
import dev.mooncake4j.core.rig.RawDecoder.Asked;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.rig.RigPrefiller;
import dev.mooncake4j.core.wire.PullEntry;
import dev.mooncake4j.core.wire.PullRequest;
import dev.mooncake4j.core.wire.PullResponse;
import dev.mooncake4j.core.wire.PullResponse.Status;
import dev.mooncake4j.core.wire.WireCodec;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Layouts, messages that cannot be taken, and bounds. */
class ProducerMessagesTest {
  private final CoreRig rig = new CoreRig(RigOptions.defaults().withRanks(1, 0));
  private final RigPrefiller prefiller = rig.prefiller();
  private final String at = prefiller.address();
  private final RawDecoder decoder = rig.rawDecoder();

  @AfterEach
  void close() {
    assertThat(prefiller.loop().failedEvents()).isZero();
    rig.close();
  }

  private PullResponse served(Asked asked) {
    rig.settle();
    prefiller.transfers().completeAll();
    rig.settle();
    return asked.answer();
  }

  // Layouts.

  @Test
  void aLayoutIsNamedOnceItHasBeenSent() {
    prefiller.ready("p1", "t1", 1);
    prefiller.ready("p2", "t2", 2);
    decoder.nameLayout(0xfff1_0000_0000_0001L);
    PullResponse first = served(decoder.pull(at, "d1", "t1", 3));
    assertThat(first.okRequests()).containsExactly("d1");
    assertThat(first.layoutId()).isEqualTo(0xfff1_0000_0000_0001L);
    PullResponse second = served(decoder.pullNamingLayout(at, entry("d2", "t2", 4)));
    assertThat(second.okRequests()).containsExactly("d2");
    assertThat(second.layoutId()).isEqualTo(0xfff1_0000_0000_0001L);
  }

  @Test
  void aLayoutThatIsNotKeptIsMissedAndNothingIsStarted() {
    prefiller.ready("p", "t", 1);
    decoder.nameLayout(5);
    PullResponse miss = served(decoder.pullNamingLayout(at, entry("d", "t", 3)));
    assertThat(miss.status()).isEqualTo(Status.LAYOUT_MISS);
    assertThat(miss.layoutId()).isZero();
    assertThat(miss.message()).contains("layout_id=0x5").contains(decoder.session());
    assertThat(prefiller.transfers().submitted()).isZero();
    assertThat(prefiller.producer().waitingPulls()).isZero();
    assertThat(served(decoder.pull(at, "d", "t", 3)).okRequests()).containsExactly("d");
  }

  @Test
  void aLayoutWithoutANameIsNotKept() {
    prefiller.ready("p", "t", 1);
    assertThat(served(decoder.pull(at, "d", "t", 3)).okRequests()).containsExactly("d");
    prefiller.ready("p", "t", 1);
    PullResponse answer = served(decoder.pullNamingLayout(at, entry("d", "t", 3)));
    assertThat(answer.status()).isEqualTo(Status.ERROR);
  }

  @Test
  void layoutsOfTwoRanksWithOneIdAreKeptApart() {
    RawDecoder other = rig.rawDecoder();
    decoder.nameLayout(7);
    other.nameLayout(7);
    prefiller.ready("p", "t", 1);
    served(decoder.pull(at, "d", "t", 3));
    prefiller.ready("p", "t", 1);
    PullResponse answer = served(other.pullNamingLayout(at, entry("d", "t", 3)));
    assertThat(answer.status()).isEqualTo(Status.LAYOUT_MISS);
  }

  @Test
  void theLeastRecentlyUsedLayoutIsForgottenFirst() {
    prefiller.announce("p", "t");
    for (int id = 1; id <= PeerLayouts.MAX_PEERS; id++) {
      decoder.nameLayout(id);
      assertThat(served(decoder.pull(at)).status()).isEqualTo(Status.FINISH);
    }
    // The first is used, so the second is the oldest when one more comes.
    decoder.nameLayout(1);
    Asked used = decoder.pullNamingLayout(at, entry("used", "t", 3));
    rig.settle();
    assertThat(used.answers()).as("kept: it waits").isEmpty();
    decoder.nameLayout(100_001);
    served(decoder.pull(at));
    decoder.nameLayout(2);
    assertThat(served(decoder.pullNamingLayout(at, entry("d", "t", 3))).status())
        .isEqualTo(Status.LAYOUT_MISS);
    decoder.nameLayout(1);
    Asked kept = decoder.pullNamingLayout(at, entry("kept", "t", 3));
    rig.settle();
    assertThat(kept.answers()).as("kept: it waits").isEmpty();
    assertThat(prefiller.producer().waitingPulls()).isEqualTo(2);
  }

  @Test
  void cachesRegisteredAnewKnowNoLayouts() {
    decoder.nameLayout(5);
    served(decoder.pull(at));
    prefiller.attach();
    prefiller.ready("p", "t", 1);
    assertThat(served(decoder.pullNamingLayout(at, entry("d", "t", 3))).status())
        .isEqualTo(Status.LAYOUT_MISS);
  }

  @Test
  void layoutsThatDoNotFitAreRefusedBeforeAnythingWaits() {
    RawDecoder half = rig.rawDecoder(0, 2);
    half.nameLayout(5);
    prefiller.ready("p", "t", 1);
    // It says that it is the only rank, with blocks of half the length.
    PullRequest lie = half.request(true, entry("d", "t", 3));
    PullRequest told =
        new PullRequest(
            lie.remoteHostname(), lie.remotePort(), 1, 0, lie.entries(), lie.layout(), 1, 5);
    PullResponse answer = served(half.ask(at, WireCodec.encode(told)));
    assertThat(answer.status()).isEqualTo(Status.ERROR);
    assertThat(answer.message()).contains("kv_block_len").contains("32").contains("16");
    assertThat(prefiller.producer().leases()).isEqualTo(1);
    // Nor is it kept.
    assertThat(served(half.pullNamingLayout(at, entry("d", "t", 3))).status())
        .isEqualTo(Status.LAYOUT_MISS);
  }

  @Test
  void ranksThatDoNotPairAreRefused() {
    RawDecoder third = rig.rawDecoder(0, 1);
    PullRequest request = third.request(true, entry("d", "t", 3));
    PullRequest told =
        new PullRequest(
            request.remoteHostname(),
            request.remotePort(),
            3,
            7,
            request.entries(),
            request.layout(),
            1,
            0);
    PullResponse answer = served(third.ask(at, WireCodec.encode(told)));
    assertThat(answer.status()).isEqualTo(Status.ERROR);
    assertThat(answer.message()).contains("7").contains("3");
  }

  // Messages that cannot be taken.

  @Test
  void aMalformedRequestIsAnsweredAndCountedAndTheNextIsServed() {
    prefiller.ready("p", "t", 1);
    byte[] good = WireCodec.encode(decoder.request(true, entry("d", "t", 3)));
    byte[][] bad = {
      {},
      "GET / HTTP/1.1\r\n\r\n".getBytes(StandardCharsets.US_ASCII),
      Arrays.copyOf(good, good.length - 1),
      Arrays.copyOf(good, good.length + 1),
      {(byte) 0x80},
      {(byte) 0xdd, (byte) 0xff, (byte) 0xff, (byte) 0xff, (byte) 0xff},
    };
    for (int i = 0; i < bad.length; i++) {
      Asked asked = decoder.ask(at, bad[i]);
      rig.settle();
      PullResponse answer = asked.answer();
      assertThat(answer.status()).isEqualTo(Status.ERROR);
      assertThat(answer.message()).startsWith("malformed request");
      assertThat(prefiller.producer().malformed()).isEqualTo(i + 1);
    }
    assertThat(served(decoder.ask(at, good)).okRequests()).containsExactly("d");
    assertThat(prefiller.producer().malformed()).isEqualTo(bad.length);
  }

  @Test
  void aRequestOfSeveralFramesIsAnsweredWithAnError() {
    Asked asked = decoder.pull(at, "d", "t", 3);
    rig.settle();
    assertThat(asked.answers()).isEmpty();
    PeerIdentity nobody = new PeerIdentity(9_999, "10.0.0.9");
    prefiller.producer().onMalformed(nobody, 2);
    assertThat(prefiller.producer().malformed()).isEqualTo(1);
    assertThat(rig.network().droppedReplies()).as("an answer to one that is gone").isEqualTo(1);
  }

  @Test
  void anAnswerToADecoderThatIsGoneHarmsNobody() {
    prefiller.ready("p1", "t1", 1);
    prefiller.ready("p2", "t2", 2);
    Asked gone = decoder.pull(at, "d1", "t1", 3);
    Asked stays = decoder.pull(at, "d2", "t2", 4);
    rig.settle();
    gone.connection().close();
    prefiller.transfers().completeAll();
    rig.settle();
    assertThat(stays.answer().okRequests()).containsExactly("d2");
    assertThat(prefiller.sent()).containsExactly("p1=SERVED", "p2=SERVED");
    assertThat(rig.network().droppedReplies()).isEqualTo(1);
  }

  @Test
  void whatFailsHereIsAnsweredToo() {
    prefiller.ready("p", "t", 1);
    prefiller.transfers().failSubmits(new IllegalStateException("made to fail"));
    PullResponse answer = served(decoder.pull(at, "d", "t", 3));
    assertThat(answer.errorRequests()).containsExactly("d");
    assertThat(answer.message()).contains("made to fail");
    assertThat(answer.quiet()).isTrue();
    prefiller.transfers().failSubmits(null);
    assertThat(served(decoder.pull(at, "d", "t", 3)).okRequests()).containsExactly("d");
    assertThat(prefiller.sent()).containsExactly("p=SERVED");
  }

  // Bounds.

  private static PullEntry[] entries(String prefix, int count) {
    PullEntry[] entries = new PullEntry[count];
    for (int i = 0; i < count; i++) {
      entries[i] = new PullEntry("d" + i, prefix + i, BlockIds.of(1));
    }
    return entries;
  }

  @Test
  void noMoreThanSoManyPullsOfOneDecoderWaitAndTheOthersHaveRoom() {
    Asked many = decoder.pull(at, entries("t", WaitingPulls.MAX_PER_SESSION));
    rig.settle();
    assertThat(many.answers()).isEmpty();
    PullResponse refused = served(decoder.pull(at, "e", "u", 3));
    assertThat(refused.errorRequests()).containsExactly("e");
    assertThat(refused.message())
        .contains("waiting_pulls=" + WaitingPulls.MAX_PER_SESSION)
        .contains("peer=" + decoder.session());
    Asked other = rig.rawDecoder().pull(at, "o", "v", 3);
    rig.settle();
    assertThat(other.answers()).isEmpty();
    // What is ready needs no place, and each that ends makes room.
    prefiller.ready("p", "ready", 1);
    assertThat(served(decoder.pull(at, "r", "ready", 5)).okRequests()).containsExactly("r");
    prefiller.cancel("q", "t17", "made room");
    rig.settle();
    assertThat(many.answer().errorRequests()).containsExactly("d17");
    Asked next = decoder.pull(at, "n", "w", 3);
    rig.settle();
    assertThat(next.answers()).isEmpty();
    assertThat(prefiller.producer().waitingPulls()).isEqualTo(WaitingPulls.MAX_PER_SESSION + 1);
  }

  @Test
  void noMoreThanSoManyPullsWaitInAll() {
    for (int i = 0; i < WaitingPulls.MAX / 2 / WaitingPulls.MAX_PER_SESSION; i++) {
      rig.rawDecoder().pull(at, entries("t" + i + "-", WaitingPulls.MAX_PER_SESSION));
    }
    rig.settle();
    assertThat(prefiller.producer().waitingPulls()).isEqualTo(WaitingPulls.MAX / 2);
    PullResponse refused = served(decoder.pull(at, "e", "u", 3));
    assertThat(refused.errorRequests()).as("another rank of the same host").containsExactly("e");
    assertThat(refused.message())
        .contains("waiting_pulls=" + WaitingPulls.MAX / 2)
        .contains("host=10.0.0.1");
    Asked elsewhere = rig.rawDecoder().from("10.0.0.2").pull(at, "f", "v", 3);
    rig.settle();
    assertThat(elsewhere.answers()).as("another host has room").isEmpty();
    rig.advanceSeconds(30);
    assertThat(prefiller.producer().waitingPulls()).isZero();
    assertThat(prefiller.loop().pendingDeadlines()).isZero();
  }

  @Test
  void anAnswerNamesEveryFailedRequestAndAFewOfTheReasons() {
    PullEntry[] entries = new PullEntry[500];
    for (int i = 0; i < entries.length; i++) {
      prefiller.cancel("p" + i, "t" + i, "aborted");
      entries[i] = new PullEntry("d" + i, "t" + i, BlockIds.of(1));
    }
    Asked asked = decoder.pull(at, entries);
    rig.settle();
    PullResponse answer = asked.answer();
    assertThat(answer.errorRequests()).hasSize(500);
    assertThat(answer.message()).contains("transfer_id=t7 ").contains("failures=492");
    assertThat(answer.message()).hasSizeLessThan(1000);
  }

  @Test
  void tombstonesAreBoundedAndTheOldestGoesFirst() {
    Tombstones tombstones = new Tombstones(prefiller.loop());
    for (int i = 0; i <= Tombstones.MAX; i++) {
      tombstones.put("t" + i, "over", false);
    }
    assertThat(tombstones.size()).isEqualTo(Tombstones.MAX);
    assertThat(tombstones.get("t0")).isNull();
    assertThat(tombstones.get("t1")).isNotNull();
    // One told again is young again.
    tombstones.put("t1", "over twice", false);
    tombstones.put("new", "over", false);
    assertThat(tombstones.get("t1")).isNotNull();
    assertThat(tombstones.get("t2")).isNull();
    tombstones.clear();
    assertThat(prefiller.loop().pendingDeadlines()).isZero();
  }

  @Test
  void manyReleasesOfOneTransferBeingWrittenAreBounded() {
    PendingReleases releases = new PendingReleases();
    PeerIdentity from = new PeerIdentity(9_998, "10.0.0.9");
    int taken = 0;
    while (!releases.isFull()) {
      releases.add(new PendingReleases.Pending(from, List.of("t"), List.of(), 1), List.of("t"));
      taken++;
    }
    assertThat(taken).isEqualTo(65_536);
    assertThat(releases.quiet("t")).hasSize(taken);
    assertThat(releases.size()).isZero();
    assertThat(releases.isFull()).isFalse();
  }
}
