package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.RankLayout;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.rig.RawDecoder.Asked;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.rig.TestCache;
import java.lang.foreign.Arena;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * A prefiller that gives its caches back and registers others: what was met with the former ones is
 * neither read from them any more, nor from the same places of the new ones.
 */
class ProducerOtherCachesTest extends EarlyPrefill {
  private static final int OTHER = 90;

  private final Arena arena = Arena.ofConfined();
  private final KvCacheSpec spec = RigOptions.defaults().spec();
  private final TestCache other = new TestCache(arena, 2, 32, 32);

  @BeforeEach
  void registerOthersToo() {
    prefiller.engine().register(other.ranges());
    for (int i = 0; i < 8; i++) {
      other.fill(OTHER + i, i);
    }
  }

  @AfterEach
  void close() {
    arena.close();
  }

  private void giveBackAndRegisterOthers() {
    prefiller.loop().post(prefiller.producer()::detach);
    prefiller
        .loop()
        .post(
            () ->
                prefiller
                    .transfers()
                    .attach(
                        prefiller.producer(),
                        other.local(RankLayout.single(), spec),
                        HostMemory.of(other.layout().memories())));
    rig.settle();
  }

  @Test
  void aPullThatWaitsIsNotServedFromTheFormerOnes() {
    begin(1, 3);
    Asked asked = pull(20, 22);
    giveBackAndRegisterOthers();
    ready(1, 3);
    complete();
    assertFailed(asked, "other kv caches");
    Asked again = pull(20, 22);
    complete();
    assertServed(again);
    assertHolds(OTHER + 1, 20);
    assertHolds(OTHER + 3, 22);
  }

  @Test
  void aTransferThatIsReadyIsLetGo() {
    begin(1, 3);
    ready(1, 3);
    giveBackAndRegisterOthers();
    assertThat(prefiller.sent()).containsExactly("p=RELEASED");
    Asked asked = pull(20, 22);
    assertFailed(asked, "other kv caches");
    assertThat(prefiller.transfers().submitted()).isZero();
  }

  @Test
  void theSameOnesAreTakenUpAgain() {
    begin(1, 3);
    Asked asked = pull(20, 22);
    prefiller.loop().post(prefiller.producer()::detach);
    prefiller.loop().post(prefiller::attach);
    ready(1, 3);
    complete();
    assertServed(asked);
    assertHolds(1, 20);
  }
}
