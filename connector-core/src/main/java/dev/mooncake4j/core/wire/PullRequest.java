package dev.mooncake4j.core.wire;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A decoder asks for blocks: {@code MooncakeXferMetadata} in vLLM.
 *
 * @param remoteHostname host of the decoder's engine
 * @param remotePort port of the decoder's engine
 * @param remoteTpSize the decoder's tensor-parallel size
 * @param remoteTpRank the decoder's tensor-parallel rank
 * @param entries its requests, in order
 * @param layout its regions, or empty where {@code layoutId} names them
 * @param remotePpSize the decoder's pipeline stages
 * @param layoutId the layout's name, 64 bits, or 0 for none
 * @param fingerprint of the decoder's model and KV type, or {@code null}; a field of ours that vLLM
 *     does not know and ignores
 * @param digest whether a {@link TransferDigest} of each request is asked for; ours too
 */
public record PullRequest(
    String remoteHostname,
    int remotePort,
    int remoteTpSize,
    int remoteTpRank,
    List<PullEntry> entries,
    WireLayout layout,
    int remotePpSize,
    long layoutId,
    @Nullable String fingerprint,
    boolean digest)
    implements SideChannelRequest {

  /** A pull with vLLM's fields alone. */
  public PullRequest(
      String remoteHostname,
      int remotePort,
      int remoteTpSize,
      int remoteTpRank,
      List<PullEntry> entries,
      WireLayout layout,
      int remotePpSize,
      long layoutId) {
    this(
        remoteHostname,
        remotePort,
        remoteTpSize,
        remoteTpRank,
        entries,
        layout,
        remotePpSize,
        layoutId,
        null,
        false);
  }

  /** Copies the list. */
  public PullRequest {
    entries = List.copyOf(entries);
  }
}
