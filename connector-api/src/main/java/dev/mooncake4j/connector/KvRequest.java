package dev.mooncake4j.connector;

import java.io.Serializable;

/**
 * What the connector needs to know of one request of the inference server.
 *
 * @param requestId the server's own id, unique among its live requests and those whose blocks are
 *     kept ({@link FinishDecision#KEEP})
 * @param promptTokens length of the prompt in tokens, at least 0
 * @param transferParams the request's {@code kv_transfer_params}
 */
public record KvRequest(String requestId, int promptTokens, KvTransferParams transferParams)
    implements Serializable {

  /** Checks the ranges. */
  public KvRequest {
    if (requestId.isEmpty()) {
      throw new IllegalArgumentException("request_id is empty: give each live request its own");
    }
    if (promptTokens < 0) {
      throw new IllegalArgumentException("prompt_tokens=" + promptTokens + " is negative");
    }
  }
}
