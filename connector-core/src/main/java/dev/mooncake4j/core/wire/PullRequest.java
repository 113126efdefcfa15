package dev.mooncake4j.core.wire;

import java.util.List;

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
 */
public record PullRequest(
    String remoteHostname,
    int remotePort,
    int remoteTpSize,
    int remoteTpRank,
    List<PullEntry> entries,
    WireLayout layout,
    int remotePpSize,
    long layoutId)
    implements SideChannelRequest {

  /** Copies the list. */
  public PullRequest {
    entries = List.copyOf(entries);
  }
}
