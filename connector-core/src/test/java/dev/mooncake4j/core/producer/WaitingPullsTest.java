package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.loop.EventLoop;
import dev.mooncake4j.core.producer.WaitingPulls.Waiting;
import dev.mooncake4j.core.wire.PullEntry;
import dev.mooncake4j.core.wire.PullRequest;
import dev.mooncake4j.core.wire.WireLayout;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Who may have how many pulls waiting, when hosts ask without end. */
class WaitingPullsTest {
  private final EventLoop loop = new EventLoop(NanoClock.SYSTEM);
  private final WaitingPulls waiting = new WaitingPulls();
  private final List<Waiting> all = new ArrayList<>();

  /** Adds one if there is room for it. */
  private boolean offer(String host, int session) {
    String name = host + ":" + session;
    if (waiting.fullFor(host, name) != null) {
      return false;
    }
    PullEntry entry = new PullEntry("d" + all.size(), "t" + all.size(), BlockIds.of(1));
    PullRequest pull =
        new PullRequest(host, session, 1, 0, List.of(entry), WireLayout.empty(), 1, 0);
    Waiting waiter =
        new Waiting(new ServedPull(new PeerIdentity(session, host), pull, name, null, 1), entry, 0);
    waiting.add(waiter, loop.schedule(1, () -> {}));
    all.add(waiter);
    return true;
  }

  /** Adds until there is no more room; returns how many. */
  private int fill(String host, int session) {
    int n = 0;
    while (offer(host, session)) {
      n++;
    }
    return n;
  }

  @Test
  void oneRankHasItsOwnBound() {
    assertThat(fill("a", 1)).isEqualTo(WaitingPulls.MAX_PER_SESSION);
    assertThat(waiting.fullFor("a", "a:1")).contains("peer=a:1");
    assertThat(offer("a", 2)).isTrue();
  }

  @Test
  void aHostOfManyRanksLeavesHalfToTheOthers() {
    for (int session = 0; session < 100; session++) {
      fill("a", session);
    }
    assertThat(waiting.size()).isEqualTo(WaitingPulls.MAX / 2);
    assertThat(waiting.fullFor("a", "a:new")).contains("host=a").contains("places left=");
    assertThat(offer("b", 1)).isTrue();
  }

  @Test
  void oneThatInventsARankForEachPullLeavesHalfToTheOthers() {
    int session = 0;
    while (offer("a", session)) {
      session++;
    }
    assertThat(session).isEqualTo(WaitingPulls.MAX / 2);
    assertThat(offer("b", 1)).isTrue();
  }

  @Test
  void hostsThatWantAllShareAndAsMuchAsEachHasIsLeftForANewOne() {
    int hosts = 7;
    boolean any = true;
    for (int session = 0; any; session++) {
      any = false;
      for (int host = 0; host < hosts; host++) {
        any |= offer("h" + host, session);
      }
    }
    int share = WaitingPulls.MAX / (hosts + 1);
    assertThat(waiting.size()).isBetween(hosts * (share - 1), hosts * (share + 1));
    for (int host = 0; host < hosts; host++) {
      String name = "h" + host;
      assertThat(all.stream().filter(w -> w.pull.from.host().equals(name)).count())
          .isBetween(share - 1L, share + 1L);
    }
    assertThat(fill("new", 0)).isBetween(share / 2 - 1, share / 2 + 1);
  }

  @Test
  void noMoreThanAllThePlacesHoweverManyTheHosts() {
    for (int host = 0; host < WaitingPulls.MAX + 10; host++) {
      offer("h" + host, 1);
    }
    assertThat(waiting.size()).isEqualTo(WaitingPulls.MAX);
  }

  @Test
  void whoStopsWaitingMakesRoomAndNothingIsRemembered() {
    for (int session = 0; session < 4; session++) {
      fill("a", session);
    }
    assertThat(offer("a", 9)).isFalse();
    waiting.remove(all.getFirst());
    waiting.remove(all.getFirst());
    // One place more, and one fewer of its own.
    assertThat(offer("a", 9)).isTrue();
    assertThat(offer("a", 9)).isFalse();
    all.forEach(waiting::remove);
    assertThat(waiting.size()).isZero();
    assertThat(loop.pendingDeadlines()).isZero();
    assertThat(fill("a", 1)).isEqualTo(WaitingPulls.MAX_PER_SESSION);
  }
}
