package dev.mooncake4j.it.stress;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.FinishDecision;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvScheduler;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.it.stress.Messages.Ended;
import dev.mooncake4j.it.stress.Messages.Outcome;
import dev.mooncake4j.it.stress.Messages.SendJob;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;

/** A prefiller: "computes" the KV of each prompt and frees its blocks when it is told to. */
final class PrefillSide implements PeerSide {
  private final KvScheduler scheduler;
  private final KvWorker worker;
  private final BlockPool pool;
  private final Timers timers;
  private final Consumer<Ended> ended;
  private final Map<String, Send> live = new HashMap<>();
  private final Deque<SendJob> withoutBlocks = new ArrayDeque<>();
  private long strays;

  private static final class Send {
    final SendJob job;
    final KvRequest request;
    final int[] blocks;

    Send(SendJob job, KvRequest request, int[] blocks) {
      this.job = job;
      this.request = request;
      this.blocks = blocks;
    }
  }

  PrefillSide(
      KvScheduler scheduler,
      KvWorker worker,
      BlockPool pool,
      Timers timers,
      Consumer<Ended> ended) {
    this.scheduler = scheduler;
    this.worker = worker;
    this.pool = pool;
    this.timers = timers;
    this.ended = ended;
  }

  @Override
  public void take(Messages.ToPeer message) {
    for (SendJob job : message.sends()) {
      if (job.letGoMillis() >= 0) {
        timers.after(job.letGoMillis(), () -> worker.release(job.transferId()));
      }
      withoutBlocks.add(job);
    }
    startSome();
  }

  /** In order of arrival, as far as the blocks go. */
  private void startSome() {
    for (SendJob job = withoutBlocks.peek();
        job != null && job.blocks() <= pool.freeBlocks();
        job = withoutBlocks.peek()) {
      withoutBlocks.remove();
      start(job);
    }
  }

  private void start(SendJob job) {
    KvRequest request =
        new KvRequest(
            "p-" + job.n(),
            job.blocks() * BlockPool.BLOCK_TOKENS,
            KvTransferParams.forPrefiller(job.transferId()));
    Send send = new Send(job, request, pool.take(job.blocks(), job.scattered()));
    live.put(request.requestId(), send);
    scheduler.onRequestArrived(request);
    int matched = scheduler.matchedTokens(request, 0).tokens();
    scheduler.onBlocksAllocated(request, BlockIds.of(send.blocks), matched);
    timers.after(job.computeMillis(), () -> finish(send));
  }

  private void finish(Send send) {
    if (!send.job.abort()) {
      pool.fill(KvPattern.of(send.job.transferId()), send.blocks);
    }
    FinishReason reason =
        send.job.abort()
            ? FinishReason.ABORTED
            : send.job.n() % 2 == 0 ? FinishReason.STOP : FinishReason.LENGTH;
    FinishDecision decision =
        scheduler.onRequestFinished(send.request, BlockIds.of(send.blocks), reason);
    if (!decision.keepBlocks()) {
      end(send, Outcome.LET_GO);
    }
  }

  @Override
  public void onResult(StepResult result) {
    for (StepResult.Sent sent : result.sent()) {
      Send send = live.get(sent.requestId());
      if (send == null) {
        strays++;
        continue;
      }
      end(
          send,
          switch (sent.end()) {
            case SERVED -> Outcome.SERVED;
            case EXPIRED -> Outcome.EXPIRED;
            case RELEASED -> Outcome.RELEASED;
          });
    }
    strays += result.received().size() + result.failed().size() + result.quieted().size();
    startSome();
  }

  private void end(Send send, Outcome outcome) {
    live.remove(send.request.requestId());
    pool.giveBack(send.blocks);
    ended.accept(Ended.of(send.job.n(), outcome));
  }

  @Override
  public int outstanding() {
    return live.size() + withoutBlocks.size();
  }

  @Override
  public long strays() {
    return strays;
  }
}
