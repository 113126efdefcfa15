package dev.mooncake4j.core.scheduler;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.core.config.CapturedLog;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/**
 * Random schedules of a server's calls and of a worker's results, with few request and transfer ids
 * so that they clash, held against a model of who may use which block.
 */
class MooncakeSchedulerScheduleTest {
  private static final String ADDRESS = "http://10.0.0.1:8998";
  private static final int SCHEDULES = 2_000;

  @Test
  void blocksAreReleasedOnceAndNothingIsRemembered() {
    String given = System.getProperty("mooncake4j.seed");
    long first = given != null ? Long.parseLong(given) : System.nanoTime();
    int schedules = Integer.getInteger("mooncake4j.cases", given != null ? 1 : SCHEDULES);
    System.out.println("schedules: first seed=" + first + " (-Dmooncake4j.seed=N repeats one)");
    int kept = 0;
    int filled = 0;
    int warned = 0;
    for (int i = 0; i < schedules; i++) {
      long seed = first + i;
      Schedule schedule = new Schedule(seed);
      // The warnings of thousands of requests that are refused on purpose.
      try (CapturedLog warnings = new CapturedLog()) {
        schedule.run();
        warned += warnings.lines("WARN").size();
      } catch (RuntimeException | AssertionError e) {
        throw new AssertionError("seed=" + seed + "\n" + String.join("\n", schedule.log), e);
      }
      kept += schedule.keptCount;
      filled += schedule.filledCount;
    }
    if (given == null) {
      // The schedules do reach what they are for.
      assertThat(kept).isGreaterThan(schedules / 2);
      assertThat(filled).isGreaterThan(schedules / 2);
      assertThat(warned).isGreaterThan(schedules / 2);
    }
  }

  /** One life of a request: the same id may live again. */
  private static final class Life {
    final KvRequest request;
    final int block;
    boolean allocated;

    Life(KvRequest request, int block) {
      this.request = request;
      this.block = block;
    }
  }

  private static final class Schedule {
    final List<String> log = new ArrayList<>();
    int keptCount;
    int filledCount;

    private final SplittableRandom random;
    private final MooncakeScheduler scheduler;
    private final KvRole role;
    private final boolean leases;
    private int nextBlock;

    // The server.
    private final Map<String, Life> live = new LinkedHashMap<>();
    private final Map<String, Integer> keptBlocks = new HashMap<>();
    private final Set<Integer> freeBlocks = new HashSet<>();

    // The worker: what it has under way, and what it has to tell.
    private final Map<String, StepPlan.Pull> pulling = new LinkedHashMap<>();
    private final Map<String, StepPlan.Ready> sending = new LinkedHashMap<>();
    private final Map<String, String> announced = new LinkedHashMap<>();
    private final Set<String> leased = new HashSet<>();
    private final Deque<StepResult> results = new ArrayDeque<>();

    Schedule(long seed) {
      random = new SplittableRandom(seed);
      role = oneOf(KvRole.values());
      leases = random.nextBoolean();
      scheduler =
          MooncakeSchedulerTest.scheduler(
              role, KvCacheSpec.fullAttention(16), leases ? Duration.ofSeconds(30) : null);
    }

    void run() {
      int calls = 5 + random.nextInt(120);
      for (int i = 0; i < calls; i++) {
        switch (random.nextInt(10)) {
          case 0, 1 -> arrive();
          case 2 -> anyLife(this::match);
          case 3, 4 -> anyLife(this::allocate);
          case 5, 6 -> step();
          case 7 -> anyLife(life -> finish(life, anyReason()));
          case 8 -> work();
          default -> deliver();
        }
      }
      for (Life life : new ArrayList<>(live.values())) {
        finish(life, anyReason());
      }
      step();
      while (!pulling.isEmpty() || !sending.isEmpty() || !results.isEmpty()) {
        work();
        deliver();
      }
      step();

      assertThat(keptBlocks).as("kept for ever").isEmpty();
      assertThat(leased).as("leases without an end").isEmpty();
      assertThat(freeBlocks).as("every block is the server's again").hasSize(nextBlock);
      assertThat(scheduler.size()).as("remembered").isZero();
    }

    // ---- the server

    private void arrive() {
      String id = "r" + random.nextInt(5);
      if (live.containsKey(id)) {
        return;
      }
      Life life = new Life(new KvRequest(id, 16, params()), nextBlock++);
      live.put(id, life);
      log.add("arrive " + life.request + " block " + life.block);
      // A call that is left out is made up for by the next, but for an id that is still kept: its
      // end alone could not be told from the earlier request's, told twice.
      if (keptBlocks.containsKey(id) || random.nextInt(4) > 0) {
        scheduler.onRequestArrived(life.request);
      }
    }

    private KvTransferParams params() {
      String transfer = "t" + random.nextInt(5);
      return switch (random.nextInt(12)) {
        case 0 -> new KvTransferParams(false, false, null, null, null);
        case 1 -> new KvTransferParams(true, true, transfer, "e", ADDRESS);
        case 2 -> new KvTransferParams(false, true, transfer, null, ADDRESS);
        case 3, 4, 5, 6 -> KvTransferParams.forPrefiller(transfer);
        default -> KvTransferParams.forDecoder(transfer, "e", ADDRESS);
      };
    }

    private void match(Life life) {
      scheduler.matchedTokens(life.request, 0);
    }

    private void allocate(Life life) {
      boolean cached = random.nextInt(4) == 0;
      life.allocated = true;
      log.add("allocate " + life.request.requestId() + (cached ? " all cached" : ""));
      scheduler.onBlocksAllocated(
          life.request, cached ? BlockIds.none() : BlockIds.of(life.block), cached ? 0 : 16);
    }

    private FinishReason anyReason() {
      return oneOf(FinishReason.values());
    }

    private void finish(Life life, FinishReason reason) {
      String id = life.request.requestId();
      BlockIds blocks = life.allocated ? BlockIds.of(life.block) : BlockIds.none();
      boolean keep = scheduler.onRequestFinished(life.request, blocks, reason).keepBlocks();
      log.add("finish " + id + " " + reason + (keep ? " keep" : " free"));
      live.remove(id);
      if (keep) {
        keptCount++;
        assertThat(keptBlocks.put(id, life.block)).as("two keeps under one id").isNull();
        if (random.nextBoolean()) {
          assertThat(scheduler.onRequestFinished(life.request, blocks, reason).keepBlocks())
              .as("told twice")
              .isTrue();
        }
      } else {
        free(life.block);
      }
    }

    private void free(int block) {
      assertThat(freeBlocks.add(block)).as("block %d freed twice", block).isTrue();
      for (StepPlan.Pull pull : pulling.values()) {
        assertThat(pull.blocks()).as("freed under a writer").isNotEqualTo(BlockIds.of(block));
      }
      for (StepPlan.Ready ready : sending.values()) {
        assertThat(ready.blocks()).as("freed under a reader").isNotEqualTo(BlockIds.of(block));
      }
    }

    private void deliver() {
      StepResult result = results.poll();
      if (result == null) {
        return;
      }
      log.add("deliver " + result);
      scheduler.onStepResult(result);
      if (random.nextInt(8) == 0) {
        scheduler.onStepResult(result);
      }
      for (String id : result.received()) {
        released(id);
      }
      result.failed().forEach(failure -> released(failure.requestId()));
      result.sent().forEach(sent -> released(sent.requestId()));
    }

    private void released(String id) {
      Integer block = keptBlocks.remove(id);
      if (block != null) {
        free(block);
      }
    }

    // ---- the worker

    private void step() {
      // As a server does it: what there is to report is taken before the next step is built.
      while (!results.isEmpty()) {
        deliver();
      }
      StepPlan plan = scheduler.buildStep();
      if (plan.isEmpty()) {
        return;
      }
      log.add("step " + plan);
      for (StepPlan.Arrival arrival : plan.arrivals()) {
        assertThat(leases && role.isConsumer()).isTrue();
        assertThat(leased.add(arrival.requestId() + " " + arrival.transferId())).isTrue();
      }
      for (StepPlan.Pull pull : plan.pulls()) {
        assertThat(role.isConsumer()).isTrue();
        leased.remove(pull.requestId() + " " + pull.transferId());
        if (!pull.blocks().isEmpty()) {
          filledCount++;
          assertNotFree(pull.blocks());
          assertThat(pulling.put(pull.requestId(), pull)).as("two pulls of one id").isNull();
          assertThat(pulling.values())
              .extracting(StepPlan.Pull::transferId)
              .doesNotHaveDuplicates();
        }
      }
      for (String cancelled : plan.cancelledPulls()) {
        assertThat(keptBlocks).as("cancelled, so kept").containsKey(cancelled);
      }
      for (StepPlan.Announcement announcement : plan.announcements()) {
        assertThat(role.isProducer()).isTrue();
        assertThat(announced.put(announcement.transferId(), announcement.requestId())).isNull();
      }
      for (StepPlan.Ready ready : plan.ready()) {
        assertNotFree(ready.blocks());
        String request = announced.remove(ready.transferId());
        if (request == null) {
          // Let go during the prefill, and named then. It is not named again.
          continue;
        }
        assertThat(request).isEqualTo(ready.requestId());
        assertThat(sending.put(ready.transferId(), ready)).as("two sends of one id").isNull();
      }
      for (StepPlan.CancelledSend cancelled : plan.cancelledSends()) {
        assertThat(sending)
            .as("nobody cancels what is ready")
            .doesNotContainKey(cancelled.transferId());
        announced.remove(cancelled.transferId());
      }
    }

    private void assertNotFree(BlockIds blocks) {
      assertThat(freeBlocks).as("a free block is handed out").doesNotContain(blocks.get(0, 0));
    }

    private void work() {
      switch (random.nextInt(3)) {
        case 0 -> {
          StepPlan.Pull pull = any(pulling);
          if (pull != null) {
            pulling.remove(pull.requestId());
            results.add(
                random.nextBoolean()
                    ? MooncakeSchedulerTest.received(pull.requestId())
                    : MooncakeSchedulerTest.failed(pull.requestId(), pull.transferId()));
          }
        }
        case 1 -> {
          StepPlan.Ready ready = any(sending);
          if (ready != null) {
            sending.remove(ready.transferId());
            results.add(MooncakeSchedulerTest.sent(ready.requestId(), ready.transferId()));
          }
        }
        default -> {
          // A worker reports a send only once it was ready: one let go before is reported then.
        }
      }
    }

    private <T> T oneOf(T[] values) {
      return values[random.nextInt(values.length)];
    }

    private <T> @Nullable T any(Map<String, T> map) {
      if (map.isEmpty()) {
        return null;
      }
      List<T> all = new ArrayList<>(map.values());
      return all.get(random.nextInt(all.size()));
    }

    private void anyLife(Consumer<Life> call) {
      Life life = any(live);
      if (life != null) {
        call.accept(life);
      }
    }
  }
}
