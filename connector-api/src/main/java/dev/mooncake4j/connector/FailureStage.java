package dev.mooncake4j.connector;

/** Where a request failed on its way; a bounded set, fit for a metric label. */
public enum FailureStage {
  /** The request itself was unfit: missing parameters, a bad block id, a name in use. */
  REQUEST,
  /** The prefiller's bootstrap server did not answer, or does not know the engine. */
  BOOTSTRAP,
  /** The side channel could not be reached, broke, or was silent. */
  SIDE_CHANNEL,
  /** The prefill did not finish in time, was aborted, or is not known. */
  PREFILL,
  /** Prefiller and decoder do not fit together, or the blocks asked for are not there. */
  PLAN,
  /** The engine failed, or did not finish in time. */
  TRANSFER,
  /** What arrived is not what was sent, as {@code integrity_check} found. */
  INTEGRITY,
  /** The peer's answer could not be read, or left the request out. */
  RESPONSE,
  /** The user or the server gave the request up. */
  ABORTED,
  /** The connector is closed or closing. */
  SHUTDOWN
}
