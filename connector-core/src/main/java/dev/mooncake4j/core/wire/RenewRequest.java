package dev.mooncake4j.core.wire;

import java.util.List;

/**
 * A decoder renews leases. Ours: vLLM 0.33.0 has no leases for this connector and answers with an
 * error. Its form on the wire, a map with the one field {@value #FIELD}, is known here alone.
 *
 * @param transferIds the transfers
 */
public record RenewRequest(List<String> transferIds) implements SideChannelRequest {
  static final String FIELD = "renew_transfer_ids";

  /** Copies the list. */
  public RenewRequest {
    transferIds = List.copyOf(transferIds);
  }

  void write(MessagePackWriter out) {
    out.mapHeader(1);
    out.string(FIELD);
    out.strings(transferIds);
  }
}
