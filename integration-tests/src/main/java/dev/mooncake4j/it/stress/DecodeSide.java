package dev.mooncake4j.it.stress;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvScheduler;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.MatchedTokens;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.it.stress.Messages.Ended;
import dev.mooncake4j.it.stress.Messages.Outcome;
import dev.mooncake4j.it.stress.Messages.PullJob;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;

/** A decoder: fetches, looks at every byte, and uses blocks again only when they are quiet. */
final class DecodeSide implements PeerSide {
  private final KvScheduler scheduler;
  private final KvWorker worker;
  private final BlockPool pool;
  private final Timers timers;
  private final Consumer<Ended> ended;
  private final Map<String, Pull> live = new HashMap<>();

  /** Blocks of requests that failed before they were quiet. */
  private final Map<String, Pull> held = new HashMap<>();

  private final Deque<Pull> withoutBlocks = new ArrayDeque<>();
  private long strays;

  private static final class Pull {
    final PullJob job;
    final KvRequest request;
    int[] blocks = {};
    boolean finished;

    Pull(PullJob job, KvRequest request) {
      this.job = job;
      this.request = request;
    }

    int toFetch() {
      return job.promptBlocks() - job.cachedBlocks();
    }
  }

  DecodeSide(
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
    for (PullJob job : message.pulls()) {
      KvRequest request =
          new KvRequest(
              "d-" + job.n(),
              job.promptBlocks() * BlockPool.BLOCK_TOKENS,
              KvTransferParams.forDecoder(job.transferId(), job.engineId(), job.bootstrap()));
      Pull pull = new Pull(job, request);
      live.put(request.requestId(), pull);
      scheduler.onRequestArrived(request);
      if (job.letGoMillis() >= 0) {
        timers.after(job.letGoMillis(), () -> worker.release(job.transferId()));
      }
      timers.after(job.queueMillis(), () -> scheduled(pull));
    }
  }

  private void scheduled(Pull pull) {
    if (pull.job.giveUp()) {
      finish(pull, FinishReason.ABORTED);
      end(pull, Ended.of(pull.job.n(), Outcome.LET_GO));
      return;
    }
    withoutBlocks.add(pull);
    fetchSome();
  }

  /** In order of arrival, as far as the blocks go. */
  private void fetchSome() {
    for (Pull pull = withoutBlocks.peek();
        pull != null && pull.toFetch() <= pool.freeBlocks();
        pull = withoutBlocks.peek()) {
      withoutBlocks.remove();
      fetch(pull);
    }
  }

  private void fetch(Pull pull) {
    PullJob job = pull.job;
    int fetched = pull.toFetch();
    MatchedTokens matched =
        scheduler.matchedTokens(pull.request, job.cachedBlocks() * BlockPool.BLOCK_TOKENS);
    if (matched.tokens() != fetched * BlockPool.BLOCK_TOKENS) {
      finish(pull, FinishReason.ERROR);
      end(pull, Ended.of(job.n(), Outcome.REFUSED));
      return;
    }
    pull.blocks = pool.take(fetched, job.scattered());
    scheduler.onBlocksAllocated(pull.request, ids(pull), matched.tokens());
    if (fetched == 0) {
      // Nothing will be reported for it: the prefiller's blocks are let go.
      finish(pull, FinishReason.LENGTH);
      end(pull, Ended.of(job.n(), Outcome.LET_GO));
    } else if (job.abortMillis() >= 0) {
      timers.after(job.abortMillis(), () -> abort(pull));
    }
  }

  private static BlockIds ids(Pull pull) {
    return pull.blocks.length == 0 ? BlockIds.none() : BlockIds.of(pull.blocks);
  }

  private void abort(Pull pull) {
    if (live.get(pull.request.requestId()) == pull && !finish(pull, FinishReason.ABORTED)) {
      pool.giveBack(pull.blocks);
      end(pull, Ended.of(pull.job.n(), Outcome.LET_GO));
    }
  }

  /** Tells the scheduler, once; returns whether the blocks are kept. */
  private boolean finish(Pull pull, FinishReason reason) {
    if (pull.finished) {
      return false;
    }
    pull.finished = true;
    return scheduler.onRequestFinished(pull.request, ids(pull), reason).keepBlocks();
  }

  @Override
  public void onResult(StepResult result) {
    for (String requestId : result.received()) {
      Pull pull = live.get(requestId);
      if (pull == null) {
        strays++;
        continue;
      }
      KvPattern pattern = KvPattern.of(pull.job.transferId());
      long wrong = pool.wrongBytes(pattern, pull.job.cachedBlocks(), pull.blocks);
      finish(pull, FinishReason.LENGTH);
      pool.giveBack(pull.blocks);
      long bytes = BlockPool.bytes(pull.blocks.length);
      end(pull, new Ended(pull.job.n(), Outcome.DONE, "", "", true, bytes, wrong));
    }
    result.failed().forEach(this::failed);
    for (Failure failure : result.quieted()) {
      Pull pull = held.remove(failure.requestId());
      if (pull == null) {
        strays++;
        continue;
      }
      pool.giveBack(pull.blocks);
      ended.accept(Ended.of(pull.job.n(), Outcome.QUIETED));
    }
    strays += result.sent().size();
    fetchSome();
  }

  private void failed(Failure failure) {
    Pull pull = live.get(failure.requestId());
    if (pull == null) {
      strays++;
      return;
    }
    finish(pull, FinishReason.ERROR);
    if (failure.quiet()) {
      pool.giveBack(pull.blocks);
    } else {
      held.put(failure.requestId(), pull);
    }
    end(
        pull,
        new Ended(
            pull.job.n(),
            Outcome.FAILED,
            failure.stage().name(),
            failure.reason(),
            failure.quiet(),
            0,
            0));
  }

  private void end(Pull pull, Ended how) {
    live.remove(pull.request.requestId());
    ended.accept(how);
  }

  @Override
  public int outstanding() {
    return live.size() + held.size();
  }

  @Override
  public long strays() {
    return strays;
  }
}
