package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvConnector;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvScheduler;
import dev.mooncake4j.connector.KvWorker;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;

/** All calls of the connector that a server with one rank makes while it serves. */
final class ConnectorLink implements KvLink {
  private final KvScheduler scheduler;
  private final KvWorker worker;

  ConnectorLink(KvConnector connector, KvWorker worker) {
    this.scheduler = connector.scheduler();
    this.worker = worker;
  }

  @Override
  public void arrived(KvRequest request) {
    scheduler.onRequestArrived(request);
  }

  @Override
  public int loadableTokens(KvRequest request, int computedTokens) {
    return scheduler.matchedTokens(request, computedTokens).tokens();
  }

  @Override
  public void allocated(KvRequest request, BlockIds toFill, int externalTokens) {
    scheduler.onBlocksAllocated(request, toFill, externalTokens);
  }

  @Override
  public boolean finished(KvRequest request, BlockIds promptBlocks, FinishReason reason) {
    return scheduler.onRequestFinished(request, promptBlocks, reason).keepBlocks();
  }

  @Override
  public void startStep() {
    StepPlan plan = scheduler.buildStep();
    if (!plan.isEmpty()) {
      worker.startStep(plan);
    }
  }

  @Override
  public StepResult poll() {
    StepResult result = worker.poll();
    if (!result.isEmpty()) {
      scheduler.onStepResult(result);
    }
    return result;
  }
}
