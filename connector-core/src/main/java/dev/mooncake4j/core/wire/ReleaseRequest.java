package dev.mooncake4j.core.wire;

import java.util.List;

/**
 * A decoder lets transfers go, whatever their state. Ours: vLLM 0.33.0 answers with an error and
 * releases by its own timeout. Its form on the wire, a map with the one field {@value #FIELD}, is
 * known here alone.
 *
 * @param transferIds the transfers
 */
public record ReleaseRequest(List<String> transferIds) implements SideChannelRequest {
  static final String FIELD = "release_transfer_ids";

  /** Copies the list. */
  public ReleaseRequest {
    transferIds = List.copyOf(transferIds);
  }

  void write(MessagePackWriter out) {
    out.mapHeader(1);
    out.string(FIELD);
    out.strings(transferIds);
  }
}
