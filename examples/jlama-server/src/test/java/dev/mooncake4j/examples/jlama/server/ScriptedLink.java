package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.StepResult;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A connector in the test's hand: says what it is told, reports what the test says. */
final class ScriptedLink implements KvLink {
  /** A decoder's request whose blocks are to be filled. */
  record Pull(String requestId, BlockIds blocks, int tokens) {}

  /** A request that is over. */
  record End(String requestId, BlockIds blocks, FinishReason reason) {}

  final BlockingQueue<KvRequest> arrivals = new LinkedBlockingQueue<>();
  final BlockingQueue<Pull> pulls = new LinkedBlockingQueue<>();
  final BlockingQueue<End> ends = new LinkedBlockingQueue<>();
  private final BlockingQueue<StepResult> results = new LinkedBlockingQueue<>();
  private final Map<String, Boolean> underWay = new ConcurrentHashMap<>();

  /** Requests whose blocks are kept when they are over. */
  final Set<String> keeping = ConcurrentHashMap.newKeySet();

  private Runnable wake = () -> {};

  void wakes(Engine engine) {
    wake = engine::wake;
  }

  void report(StepResult result) {
    for (String id : result.received()) {
      underWay.remove(id);
    }
    for (Failure failure : result.failed()) {
      underWay.remove(failure.requestId());
    }
    results.add(result);
    wake.run();
  }

  static StepResult received(String id) {
    return new StepResult(List.of(), List.of(id), List.of(), List.of());
  }

  static StepResult sent(String id) {
    return new StepResult(
        List.of(new StepResult.Sent(id, "x", StepResult.SendEnd.SERVED)),
        List.of(),
        List.of(),
        List.of());
  }

  static StepResult failed(Failure failure) {
    return new StepResult(List.of(), List.of(), List.of(failure), List.of());
  }

  static StepResult quieted(Failure failure) {
    return new StepResult(List.of(), List.of(), List.of(), List.of(failure.quieted()));
  }

  static Failure failure(Pull pull, boolean quiet) {
    return new Failure(
        pull.requestId(),
        "x",
        FailureStage.SIDE_CHANNEL,
        "told to fail",
        null,
        pull.blocks(),
        quiet);
  }

  KvRequest nextArrival() throws InterruptedException {
    KvRequest arrival = arrivals.poll(20, TimeUnit.SECONDS);
    if (arrival == null) {
      throw new AssertionError("no request has arrived");
    }
    return arrival;
  }

  Pull nextPull() throws InterruptedException {
    Pull pull = pulls.poll(20, TimeUnit.SECONDS);
    if (pull == null) {
      throw new AssertionError("nothing is pulled");
    }
    return pull;
  }

  End nextEnd() throws InterruptedException {
    End end = ends.poll(20, TimeUnit.SECONDS);
    if (end == null) {
      throw new AssertionError("no request has ended");
    }
    return end;
  }

  @Override
  public void arrived(KvRequest request) {
    arrivals.add(request);
  }

  @Override
  public int loadableTokens(KvRequest request, int computedTokens) {
    return request.transferParams().doRemotePrefill() ? request.promptTokens() - computedTokens : 0;
  }

  @Override
  public void allocated(KvRequest request, BlockIds toFill, int externalTokens) {
    if (externalTokens > 0) {
      underWay.put(request.requestId(), true);
      pulls.add(new Pull(request.requestId(), toFill, externalTokens));
    }
  }

  @Override
  public boolean finished(KvRequest request, BlockIds promptBlocks, FinishReason reason) {
    ends.add(new End(request.requestId(), promptBlocks, reason));
    return underWay.containsKey(request.requestId()) || keeping.contains(request.requestId());
  }

  @Override
  public void startStep() {}

  @Override
  public StepResult poll() {
    StepResult all = StepResult.empty();
    for (StepResult next = results.poll(); next != null; next = results.poll()) {
      all = all.plus(next);
    }
    return all;
  }
}
