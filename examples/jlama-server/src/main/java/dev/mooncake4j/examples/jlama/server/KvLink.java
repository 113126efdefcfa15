package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.StepResult;

/** Where the engine speaks to the connector, if it has one; for the engine's thread alone. */
interface KvLink {
  /** No connector: every prompt is computed here. */
  KvLink NONE =
      new KvLink() {
        @Override
        public boolean isConnected() {
          return false;
        }

        @Override
        public void arrived(KvRequest request) {}

        @Override
        public int loadableTokens(KvRequest request, int computedTokens) {
          return 0;
        }

        @Override
        public void allocated(KvRequest request, BlockIds toFill, int externalTokens) {}

        @Override
        public boolean finished(KvRequest request, BlockIds promptBlocks, FinishReason reason) {
          return false;
        }

        @Override
        public void startStep() {}

        @Override
        public StepResult poll() {
          return StepResult.empty();
        }
      };

  /** Whether there is a connector. */
  default boolean isConnected() {
    return true;
  }

  /** A request is queued. */
  void arrived(KvRequest request);

  /** How many tokens of the prompt, beyond those here, a prefiller has or will have. */
  int loadableTokens(KvRequest request, int computedTokens);

  /** A request has its blocks; these are to be filled by the transfer. */
  void allocated(KvRequest request, BlockIds toFill, int externalTokens);

  /** A request is over; says whether its blocks are to be kept until a result names it. */
  boolean finished(KvRequest request, BlockIds promptBlocks, FinishReason reason);

  /** All that was told since the last call goes to the worker. */
  void startStep();

  /** What the worker has to report. */
  StepResult poll();
}
