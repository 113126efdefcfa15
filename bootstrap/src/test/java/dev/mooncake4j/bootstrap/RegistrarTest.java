package dev.mooncake4j.bootstrap;

import static dev.mooncake4j.bootstrap.ServerFixture.worker;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.bootstrap.WorkerRegistry.Outcome;
import dev.mooncake4j.bootstrap.WorkerRegistry.Refused;
import dev.mooncake4j.bootstrap.WorkerRegistry.Registered;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Former workers, newcomers, and what may happen while the former ones are probed. */
class RegistrarTest {

  /** A question to the prober that the test answers. */
  private record Probe(List<String> addrs, CompletableFuture<Boolean> verdict) {}

  private final WorkerRegistry registry = new WorkerRegistry();
  private final List<Probe> probes = new ArrayList<>();
  private final ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1);
  private final Registrar registrar = registrar(Duration.ofMinutes(1));

  private Registrar registrar(Duration deadline) {
    return new Registrar(
        registry,
        addrs -> {
          Probe probe = new Probe(addrs, new CompletableFuture<>());
          probes.add(probe);
          return probe.verdict();
        },
        timer,
        deadline);
  }

  @AfterEach
  void stop() {
    timer.shutdownNow();
  }

  private void present(String engineId, int tpRank, String addr) {
    assertThat(registry.register(worker(engineId, tpRank, addr), Set.of()))
        .isInstanceOf(Registered.class);
  }

  @Test
  void nobodyIsProbedForAFreePlace() {
    assertThat(registrar.register(worker("e", 0, "a")).join()).isInstanceOf(Registered.class);
    assertThat(registrar.register(worker("e", 0, "a")).join()).isInstanceOf(Registered.class);
    assertThat(registrar.register(worker("e", 1, "b")).join()).isInstanceOf(Registered.class);
    assertThat(probes).isEmpty();
  }

  @Test
  void onlyTheWorkersInTheWayAreProbed() {
    present("e", 0, "a");
    present("e", 1, "b");
    CompletableFuture<Outcome> sameEngine = registrar.register(worker("e", 1, "c"));
    assertThat(probes.getLast().addrs()).containsExactly("b");
    CompletableFuture<Outcome> otherEngine = registrar.register(worker("f", 1, "c"));
    assertThat(probes.getLast().addrs()).containsExactly("a", "b");
    assertThat(sameEngine).isNotDone();
    assertThat(otherEngine).isNotDone();
  }

  @Test
  void aWorkerThatComesWhileTheOthersAreProbedIsNotReplaced() {
    present("old", 0, "a");
    CompletableFuture<Outcome> newcomer = registrar.register(worker("new", 0, "n"));
    present("old", 1, "b");
    probes.get(0).verdict().complete(true);
    assertThat(newcomer).as("b has not been probed").isNotDone();
    assertThat(probes.get(1).addrs()).containsExactly("b");
    probes.get(1).verdict().complete(false);
    assertThat(newcomer.join())
        .isEqualTo(new Refused(400, "Engine ID mismatch for dp_rank=0: expected old, got new", 0));
    assertThat(registry.snapshot().answer().engine("old")).isNotNull();
  }

  @Test
  void ofTwoNewEnginesTheFirstIsTaken() {
    present("old", 0, "a");
    CompletableFuture<Outcome> first = registrar.register(worker("x", 0, "x"));
    CompletableFuture<Outcome> second = registrar.register(worker("y", 0, "y"));
    probes.get(0).verdict().complete(true);
    probes.get(1).verdict().complete(true);
    assertThat(first.join()).isInstanceOf(Registered.class);
    assertThat(second).as("x has not been probed").isNotDone();
    probes.get(2).verdict().complete(false);
    assertThat(second.join())
        .isEqualTo(new Refused(400, "Engine ID mismatch for dp_rank=0: expected x, got y", 0));
  }

  @Test
  void twoRanksOfTheNewEngineBothGetIn() {
    present("old", 0, "a");
    CompletableFuture<Outcome> first = registrar.register(worker("new", 0, "x"));
    CompletableFuture<Outcome> second = registrar.register(worker("new", 1, "y"));
    probes.get(1).verdict().complete(true);
    probes.get(0).verdict().complete(true);
    assertThat(first.join()).isInstanceOf(Registered.class);
    assertThat(second.join()).isInstanceOf(Registered.class);
    assertThat(Objects.requireNonNull(registry.snapshot().answer().engine("new")).addrs())
        .containsExactly("x", "y");
  }

  @Test
  void newcomersThatKeepGettingInBetweenEndInARefusal() {
    present("e0", 0, "a0");
    CompletableFuture<Outcome> unlucky = registrar.register(worker("me", 0, "m"));
    for (int i = 0; !unlucky.isDone(); i++) {
      assertThat(i).as("rounds").isLessThan(10);
      registry.deregister("e" + i, 0, 0, 0, null);
      present("e" + (i + 1), 0, "a" + (i + 1));
      probes.get(i).verdict().complete(true);
    }
    assertThat(unlucky.join()).isInstanceOf(Refused.class);
  }

  @Test
  void aProbeThatNeverEndsIsNoProof() throws Exception {
    present("old", 0, "a");
    CompletableFuture<Outcome> newcomer =
        registrar(Duration.ofMillis(1)).register(worker("new", 0, "n"));
    assertThat(newcomer.get(20, TimeUnit.SECONDS)).isInstanceOf(Refused.class);
  }

  @Test
  void nobodyIsReplacedWhileTheServerCloses() {
    present("old", 0, "a");
    timer.shutdownNow();
    assertThat(registrar.register(worker("new", 0, "n")).join()).isInstanceOf(Refused.class);
  }
}
