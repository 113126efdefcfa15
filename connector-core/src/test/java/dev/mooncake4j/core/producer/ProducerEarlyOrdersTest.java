package dev.mooncake4j.core.producer;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.core.rig.CoreRig;
import dev.mooncake4j.core.rig.RawDecoder;
import dev.mooncake4j.core.rig.RawDecoder.Asked;
import dev.mooncake4j.core.rig.RigOptions;
import dev.mooncake4j.core.rig.RigPrefiller;
import dev.mooncake4j.core.wire.PullResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/**
 * One prefill, two decoders' requests that wait for it, and all that may happen to them in any
 * order, with writes that overlap: each is answered once and not before its last write, none whose
 * connection has ended gets another write, and what is told as done lies there.
 */
class ProducerEarlyOrdersTest {
  private static final int TOTAL = 6;

  @Test
  void inAnyOrderEachIsAnsweredOnceAndAfterItsLastWrite() {
    int first = Integer.getInteger("m4j.seed", 1);
    int orders = Integer.getInteger("m4j.schedules", 3_000);
    int ok = 0;
    int beside = 0;
    for (int seed = first; seed < first + orders; seed++) {
      Order order = new Order(seed);
      try {
        order.run();
      } catch (RuntimeException | AssertionError e) {
        throw new AssertionError("order failed: -Dm4j.seed=" + seed + " " + order.told, e);
      } finally {
        order.rig.close();
      }
      ok += order.ok;
      beside += order.beside;
    }
    if (orders >= 1000) {
      assertThat(ok).as("orders that move nothing test nothing").isPositive();
      assertThat(beside).as("writes beside others").isGreaterThan(orders / 4);
    }
  }

  private static final class Order {
    final CoreRig rig = new CoreRig(RigOptions.defaults().withRanks(1, 0));
    final RigPrefiller prefiller = rig.prefiller();
    final List<RawDecoder> decoders = List.of(rig.rawDecoder(), rig.rawDecoder());
    final List<Asked> asked = new ArrayList<>();
    final List<Integer> counts = new ArrayList<>();
    final List<List<PullResponse>> answers = new ArrayList<>();
    final List<Boolean> cut = new ArrayList<>();
    final List<String> told = new ArrayList<>();
    final List<String> sent = new ArrayList<>();
    final SplittableRandom random;
    int[] blocks = IntStream.range(0, TOTAL).toArray();
    int finished;
    int restarts;
    int ok;
    int beside;
    boolean over;
    boolean closed;

    Order(int seed) {
      random = new SplittableRandom(seed);
      rig.watchWrites(this::checkWrite);
    }

    private void checkWrite(long source, long destination, long length) {
      for (int i = 0; i < asked.size(); i++) {
        if (decoders.get(i).cache().contains(destination)) {
          assertThat(answers.get(i)).as("a write after the answer of %d", i).isEmpty();
        }
      }
      assertThat(sent).as("a write from blocks that were given back").isEmpty();
    }

    void run() {
      prefiller.announce("p", "t");
      settle();
      for (int i = 0; i < 30; i++) {
        act(random.nextInt(100));
        if (random.nextInt(4) != 0) {
          settle();
        }
      }
      end();
    }

    private void act(int dice) {
      if (dice < 10) {
        ask();
      } else if (dice < 45) {
        progress();
      } else if (dice < 50) {
        restart();
      } else if (dice < 75) {
        write();
      } else if (dice < 82) {
        ready();
      } else if (dice < 84 && !over) {
        told.add("give up");
        over = true;
        prefiller.giveUp("p", "t", "given up");
      } else if (dice < 86) {
        told.add("release");
        prefiller.release("t");
      } else if (dice < 88) {
        told.add("advance");
        rig.advanceSeconds(random.nextInt(1, 32));
      } else if (dice < 92) {
        cut();
      } else if (dice < 95) {
        told.add("sleep");
        prefiller.loop().post(prefiller.producer()::detach);
        if (random.nextBoolean()) {
          progress();
          settle();
        }
        prefiller.loop().post(prefiller::attach);
      } else if (dice == 99) {
        told.add("close");
        closed = true;
        prefiller.loop().post(() -> prefiller.producer().close("closed"));
      }
    }

    private void ask() {
      int i = asked.size();
      if (i < decoders.size() && !closed) {
        told.add("ask");
        int count = random.nextInt(3) == 0 ? 4 : TOTAL;
        cut.add(false);
        counts.add(count);
        answers.add(new ArrayList<>());
        asked.add(
            decoders
                .get(i)
                .pull(prefiller.address(), "d", "t", IntStream.range(20, 20 + count).toArray()));
      }
    }

    private void progress() {
      if (!over) {
        finished = Math.min(TOTAL, finished + random.nextInt(1, 3));
        told.add("progress " + finished);
        tell();
      }
    }

    private void restart() {
      if (!over) {
        takeOtherBlocks(-5);
        restarts++;
        finished = random.nextInt(3);
        told.add("restart " + finished);
        tell();
      }
    }

    private void takeOtherBlocks(int formerPattern) {
      prefiller.cache().fill(formerPattern, blocks);
      int from = blocks[0] + TOTAL;
      blocks = IntStream.range(from, from + TOTAL).map(b -> b % 60).toArray();
    }

    private void tell() {
      int[] done = IntStream.of(blocks).limit(finished).toArray();
      for (int i = 0; i < finished; i++) {
        prefiller.cache().fill(i, blocks[i]);
      }
      prefiller.progress(
          new StepPlan.Progress("p", "t", restarts, BlockIds.of(done), List.of(TOTAL)));
    }

    private void write() {
      List<ManualTransfers.Transfer> open = prefiller.transfers().underWay();
      if (open.isEmpty()) {
        return;
      }
      ManualTransfers.Transfer one = open.get(random.nextInt(open.size()));
      int fate = random.nextInt(8);
      told.add("write " + fate);
      if (one.isForNobody() && one.isUntouched() && random.nextBoolean()) {
        one.leave();
      } else if (fate == 0) {
        one.fail("made to fail");
      } else if (fate < 3) {
        one.write(1);
      } else {
        one.complete();
      }
    }

    private void ready() {
      if (over) {
        return;
      }
      over = true;
      told.add("ready");
      if (random.nextInt(4) == 0) {
        takeOtherBlocks(-6);
      }
      for (int i = 0; i < TOTAL; i++) {
        prefiller.cache().fill(i, blocks[i]);
      }
      prefiller.ready("p", "t", blocks);
    }

    private void cut() {
      if (!asked.isEmpty()) {
        settle();
        int i = random.nextInt(asked.size());
        told.add("cut " + i);
        asked.get(i).connection().cut(true);
        cut.set(i, true);
        settle();
      }
    }

    private void settle() {
      rig.settle();
      List<ManualTransfers.Transfer> open = prefiller.transfers().underWay();
      for (RawDecoder decoder : decoders) {
        long writes = open.stream().filter(w -> w.session().equals(decoder.session())).count();
        assertThat(writes).as("writes of one request").isLessThanOrEqualTo(2);
        beside += writes == 2 ? 1 : 0;
      }
      for (int i = 0; i < asked.size(); i++) {
        answers.get(i).addAll(asked.get(i).answers());
        if (cut.get(i)) {
          String session = decoders.get(i).session();
          assertThat(open)
              .filteredOn(w -> w.session().equals(session))
              .as("only what was begun before the cut")
              .allMatch(ManualTransfers.Transfer::isForNobody);
        }
      }
      sent.addAll(prefiller.sent());
    }

    private void end() {
      settle();
      if (!over) {
        ready();
      }
      for (int i = 0; i < 20; i++) {
        settle();
        prefiller.transfers().completeAll();
      }
      settle();
      prefiller.release("t");
      settle();
      rig.advanceSeconds(200);
      settle();
      for (int i = 0; i < asked.size(); i++) {
        List<PullResponse> got = answers.get(i);
        assertThat(got).as("answers of %d", i).hasSizeBetween(cut.get(i) ? 0 : 1, 1);
        if (!got.isEmpty() && got.getFirst().okRequests().contains("d")) {
          ok++;
          int count = counts.get(i);
          for (int b = 0; b < count; b++) {
            assertThat(decoders.get(i).cache().holds(TOTAL - count + b, 20 + b))
                .as("block %d of %d", b, i)
                .isTrue();
          }
        }
      }
      assertThat(sent).as("ends").hasSize(1);
      assertThat(prefiller.loop().failedEvents()).isZero();
      assertThat(prefiller.producer().sends()).isZero();
      assertThat(prefiller.producer().waitingPulls()).isZero();
      assertThat(prefiller.producer().pinnedBlocks()).isZero();
      assertThat(prefiller.transfers().pending()).isZero();
      assertThat(prefiller.loop().pendingDeadlines()).isZero();
    }
  }
}
