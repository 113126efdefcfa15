package dev.mooncake4j.core.wire;

import dev.mooncake4j.connector.BlockIds;

/**
 * One request within a pull.
 *
 * @param requestId the decoder's request id
 * @param transferId the transfer's id
 * @param blocks the decoder's blocks to fill; {@link BlockIds#none()} only releases
 */
public record PullEntry(String requestId, String transferId, BlockIds blocks) {}
