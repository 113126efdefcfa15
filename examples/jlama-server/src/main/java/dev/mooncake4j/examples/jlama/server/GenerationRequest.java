package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.KvTransferParams;
import org.jspecify.annotations.Nullable;

/**
 * What the engine is asked for: greedy decoding of one prompt.
 *
 * @param id unique among all requests of this server
 * @param prompt the tokens, at least one
 * @param maxTokens of the answer, at least 1
 * @param minTokens before which an end token ends nothing
 * @param ignoreEnd whether an end token ends nothing at all
 * @param cacheSalt requests with another salt share no cached blocks
 * @param transfer the request's {@code kv_transfer_params}
 * @param leaveUnfetched whether the blocks that would be fetched are left as they are: the check
 *     that fetching them matters
 */
@SuppressWarnings("ArrayRecordComponent") // never compared
record GenerationRequest(
    String id,
    int[] prompt,
    int maxTokens,
    int minTokens,
    boolean ignoreEnd,
    @Nullable String cacheSalt,
    KvTransferParams transfer,
    boolean leaveUnfetched) {

  static final KvTransferParams NO_TRANSFER = new KvTransferParams(false, false, null, null, null);
}
