package dev.mooncake4j.engine;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.engine.load.EngineLibrary;
import dev.mooncake4j.engine.load.OwnThread;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What the reaper takes over from a thread that ended with an error. */
@Tag(FakeEngine.TAG)
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class BatchReaperFakeTest {

  @BeforeAll
  static void libraryIsThere() {
    FakeEngine.require();
  }

  @BeforeEach
  void reset() {
    FakeEngine.reset();
  }

  @Test
  void aBatchThatWasOverAlreadyKeepsNobodyWaiting() throws Exception {
    EngineLibrary library = EngineLibrary.open(null, false);
    EngineStart start =
        OwnThread.call("engine-start", () -> EngineStart.start(library, Engines.config()));
    EngineCore core = new EngineCore(library, start.handle(), NanoClock.SYSTEM, "127.0.0.1:1");
    BatchReaper reaper = new BatchReaper(core);
    InFlightLimit limit = new InFlightLimit(InFlightLimit.DESCRIPTORS);
    RequestBuffers buffers = new RequestBuffers(WriteOperation.WINDOW);
    try (Arena arena = Arena.ofShared();
        DescriptorList list = new DescriptorList()) {
      MemorySegment memory = arena.allocate(128, 64);
      list.add(memory.address(), memory.address() + 64, 64);
      RequestBuffers.Buffer buffer = buffers.take();
      buffer.fill(list, 0, 1, 0);
      Batch over = submit(core, limit, buffer);
      while (!over.poll(buffer.status)) {
        Thread.onSpinWait();
      }
      // Its thread came to no more than that; another one goes on as usual.
      var quiet = reaper.adopt(List.of(over)).toCompletableFuture();
      var next = reaper.adopt(List.of(submit(core, limit, buffer))).toCompletableFuture();
      quiet.get(20, SECONDS);
      next.get(20, SECONDS);
      assertThat(core.liveBatches).hasValue(0);
      assertThat(reaper.awaitEmpty(SECONDS.toNanos(20))).isTrue();
    } finally {
      core.retired.close();
      library.destroy(start.handle());
      buffers.close();
    }
    assertThat(FakeEngine.count("double_frees")).isZero();
    assertThat(FakeEngine.count("uses_after_free")).isZero();
  }

  private static Batch submit(EngineCore core, InFlightLimit limit, RequestBuffers.Buffer buffer)
      throws InterruptedException {
    limit.acquire(1, System.nanoTime() + SECONDS.toNanos(5), NanoClock.SYSTEM);
    Batch batch = Batch.submit(core, limit, buffer.requests, 0, 1, false);
    assertThat(batch).isNotNull();
    return batch;
  }
}
