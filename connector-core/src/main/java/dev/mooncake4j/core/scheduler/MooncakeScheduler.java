package dev.mooncake4j.core.scheduler;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FinishDecision;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.KvScheduler;
import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.MatchedTokens;
import dev.mooncake4j.connector.StepPlan;
import dev.mooncake4j.connector.StepResult;
import dev.mooncake4j.connector.TraceContext;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The scheduler side of the Mooncake connector.
 *
 * <p>A request is judged once, the first time that any call names it. One that asks for nothing
 * leaves no trace; one that cannot be served is warned of once, and is from then on as one that
 * asks for nothing; the others go to the decoder's or the prefiller's half of the bookkeeping,
 * {@link PullBook} or {@link SendBook}. All is forgotten when the server is done with a request and
 * the workers have reported it, if they had it.
 *
 * <p>As its interface says: one thread at a time, no I/O, nothing thrown for a request's
 * parameters. Numbers and block lists come from the server itself; those that contradict the
 * configuration throw IllegalArgumentException and change nothing.
 */
public final class MooncakeScheduler implements KvScheduler {
  private static final Logger log = LoggerFactory.getLogger(MooncakeScheduler.class);
  private static final int MAX_SHOWN_CHARS = 128;

  /** Of an id or an address that comes from a client: far above a UUID or a URL of the cluster. */
  private static final int MAX_ID_CHARS = 1024;

  private static final String ID_IN_USE =
      "an earlier request of this id is not over, or its blocks are still kept: use an id again"
          + " when a result has named it";

  private enum Kind {
    NO_TRANSFER,
    PULL,
    SEND
  }

  private record Refused(String requestId, @Nullable String transferId) {
    static Refused of(KvRequest request) {
      return new Refused(request.requestId(), request.transferParams().transferId());
    }
  }

  private final KvRole role;
  private final KvCacheSpec cacheSpec;
  private final boolean sendsEarly;
  private final PullBook pulls;
  private final SendBook sends = new SendBook();
  // Live requests that were warned of.
  private final Set<Refused> refused = new HashSet<>();

  /** The scheduler side of an engine with this configuration. */
  public MooncakeScheduler(ConnectorConfig config) {
    this.role = config.role();
    this.cacheSpec = config.cacheSpec();
    this.sendsEarly = config.sendWhilePrefill();
    this.pulls = new PullBook(config.leaseDuration() != null);
  }

  @Override
  public int onRequestArrived(KvRequest request) {
    return kindOf(request) == Kind.SEND ? prefilledTokens(request) : request.promptTokens();
  }

  /** How many prompt tokens a prefiller runs. */
  private int prefilledTokens(KvRequest request) {
    int prompt = request.promptTokens();
    return cacheSpec.hasMamba() && prompt > 1 ? prompt - 1 : prompt;
  }

  @Override
  public MatchedTokens matchedTokens(KvRequest request, int computedTokens) {
    requireNotNegative("computed_tokens", computedTokens);
    if (kindOf(request) != Kind.PULL || !pulls.isWaiting(request.requestId())) {
      return MatchedTokens.NONE;
    }
    int prompt = request.promptTokens();
    // A state cannot be taken back by a token: the last one is computed here, from the state
    // before.
    int loadable = cacheSpec.hasMamba() && prompt > 1 ? prompt - 1 : prompt;
    return loadable > computedTokens
        ? new MatchedTokens(loadable - computedTokens, true)
        : MatchedTokens.NONE;
  }

  @Override
  public void onBlocksAllocated(KvRequest request, BlockIds blocks, int externalTokens) {
    requireNotNegative("external_tokens", externalTokens);
    switch (kindOf(request)) {
      case PULL -> {
        BlockIds toFill = externalTokens > 0 ? sendable(blocks) : BlockIds.none();
        if (externalTokens > 0 && toFill.isEmpty() && pulls.isWaiting(request.requestId())) {
          log.warn(
              "request_id={} has external_tokens={} and no blocks to fill: nothing will be"
                  + " received, the prefiller's blocks are released",
              shown(request.requestId()),
              externalTokens);
        }
        pulls.allocated(request.requestId(), toFill);
      }
      case SEND -> sends.allocated(request.requestId());
      case NO_TRANSFER -> {}
    }
  }

  @Override
  public void onPrefillProgress(KvRequest request, BlockIds blocks, int finishedTokens) {
    // One that has ended is not to be taken for another of its ids.
    if (!sendsEarly
        || sends.isKept(request.requestId(), request.transferParams().transferId())
        || kindOf(request) != Kind.SEND) {
      return;
    }
    requireNotNegative("finished_tokens", finishedTokens);
    if (finishedTokens > request.promptTokens()) {
      throw new IllegalArgumentException(
          "finished_tokens="
              + finishedTokens
              + " are more than prompt_tokens="
              + request.promptTokens());
    }
    requireGroups(blocks);
    sends.progressed(
        request.requestId(),
        FinishedBlocks.of(cacheSpec, prefilledTokens(request), blocks, finishedTokens));
  }

  @Override
  public StepPlan buildStep() {
    StepPlan plan =
        new StepPlan(
            pulls.takeArrivals(),
            pulls.takePulls(),
            pulls.takeCancelled(),
            sends.takeAnnouncements(),
            sends.takeReady(),
            sends.takeCancelled(),
            sends.takeProgress());
    return plan.isEmpty() ? StepPlan.empty() : plan;
  }

  @Override
  public FinishDecision onRequestFinished(KvRequest request, BlockIds blocks, FinishReason reason) {
    String id = request.requestId();
    String transferId = request.transferParams().transferId();
    if (!refused.contains(Refused.of(request))
        && (pulls.isKept(id, transferId) || sends.isKept(id, transferId))) {
      // Told a second time. The blocks are the connector's: to free them now would be wrong.
      return FinishDecision.KEEP;
    }
    FinishDecision decision =
        switch (kindOf(request)) {
          case PULL -> pulls.finished(id);
          case SEND ->
              sends.finished(id, reason.hasKv() ? sendable(blocks) : BlockIds.none(), reason);
          case NO_TRANSFER -> FinishDecision.FREE_NOW;
        };
    refused.remove(Refused.of(request));
    return decision;
  }

  @Override
  public void onStepResult(StepResult result) {
    for (String requestId : result.received()) {
      pulls.reported(requestId, null);
    }
    for (Failure failure : result.failed()) {
      pulls.reported(failure.requestId(), failure.transferId());
    }
    for (StepResult.Sent sent : result.sent()) {
      sends.reported(sent.requestId(), sent.transferId());
    }
  }

  /** Everything remembered; 0 when all requests have ended and the last step was built. */
  int size() {
    return pulls.size() + sends.size() + refused.size();
  }

  private Kind kindOf(KvRequest request) {
    KvTransferParams params = request.transferParams();
    String id = request.requestId();
    if (!params.doRemotePrefill() && !params.doRemoteDecode()) {
      return Kind.NO_TRANSFER;
    }
    if (refused.contains(Refused.of(request))) {
      return Kind.NO_TRANSFER;
    }
    if (pulls.isLive(id, params.transferId())) {
      return Kind.PULL;
    }
    if (sends.isLive(id, params.transferId())) {
      return Kind.SEND;
    }
    String problem = unfit(params);
    if (problem == null) {
      problem = params.doRemotePrefill() ? openPull(id, params) : openSend(id, params);
    }
    if (problem != null) {
      refused.add(Refused.of(request));
      log.warn("request_id={} is served without a transfer: {}", shown(id), problem);
      return Kind.NO_TRANSFER;
    }
    return params.doRemotePrefill() ? Kind.PULL : Kind.SEND;
  }

  private @Nullable String unfit(KvTransferParams params) {
    if (params.doRemotePrefill() && params.doRemoteDecode()) {
      return "do_remote_prefill and do_remote_decode are both true: give one of them";
    }
    for (String text :
        new @Nullable String[] {
          params.transferId(), params.remoteEngineId(), params.remoteBootstrapAddr()
        }) {
      if (text != null && !isPlain(text)) {
        return "kv_transfer_params has value="
            + shown(text)
            + " of chars="
            + text.length()
            + ": at most "
            + MAX_ID_CHARS
            + " are taken, and no control characters or halves of surrogate pairs";
      }
    }
    if (params.doRemotePrefill() && !role.isConsumer()) {
      return "do_remote_prefill does not fit kv_role="
          + role.configName()
          + ": send it to a decoder";
    }
    if (params.doRemoteDecode() && !role.isProducer()) {
      return "do_remote_decode does not fit kv_role="
          + role.configName()
          + ": send it to a prefiller";
    }
    return null;
  }

  /** Whether a text from a client's JSON may go on the wire and into log lines. */
  private static boolean isPlain(String text) {
    if (text.length() > MAX_ID_CHARS) {
      return false;
    }
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (Character.isISOControl(c) || c == '\u2028' || c == '\u2029') {
        return false;
      }
      if (Character.isHighSurrogate(c)
          && i + 1 < text.length()
          && Character.isLowSurrogate(text.charAt(i + 1))) {
        i++;
      } else if (Character.isSurrogate(c)) {
        return false;
      }
    }
    return true;
  }

  private @Nullable String openPull(String requestId, KvTransferParams params) {
    List<String> missing = PullTarget.missing(params);
    if (!missing.isEmpty()) {
      return "kv_transfer_params lack " + missing + ": the router sets them";
    }
    PullTarget target = PullTarget.of(params, traceOf(requestId, params));
    String other = pulls.requestOf(target.transferId());
    if (other != null) {
      return inUse(target.transferId(), other);
    }
    if (isInUse(requestId)) {
      return ID_IN_USE;
    }
    pulls.open(requestId, target);
    return null;
  }

  private @Nullable String openSend(String requestId, KvTransferParams params) {
    String transferId = params.transferId();
    if (transferId == null || transferId.isEmpty()) {
      return "kv_transfer_params lack [transfer_id]: the router sets it";
    }
    String other = sends.requestOf(transferId);
    if (other != null) {
      return inUse(transferId, other);
    }
    if (isInUse(requestId)) {
      // Nobody else sends under this transfer id, so a decoder would wait for nothing.
      sends.cancel(requestId, transferId, "the prefiller still keeps blocks of this request_id");
      return ID_IN_USE;
    }
    sends.open(requestId, transferId, traceOf(requestId, params));
    return null;
  }

  private static @Nullable TraceContext traceOf(String requestId, KvTransferParams params) {
    String header = params.traceparent();
    TraceContext trace = TraceContext.parse(header);
    if (trace == null && header != null) {
      log.debug(
          "request_id={} has traceparent={}, which is none: ignored",
          shown(requestId),
          shown(header));
    }
    return trace;
  }

  private boolean isInUse(String requestId) {
    return pulls.knows(requestId) || sends.knows(requestId);
  }

  private static String inUse(String transferId, String requestId) {
    return "transfer_id="
        + shown(transferId)
        + " is in use by request_id="
        + shown(requestId)
        + ": give each request its own";
  }

  /** The blocks that travel: of a sliding window only the last ones. */
  private BlockIds sendable(BlockIds blocks) {
    int groups = blocks.groupCount();
    if (blocks.isEmpty()) {
      return BlockIds.none();
    }
    requireGroups(blocks);
    if (travelWhole(blocks)) {
      return blocks;
    }
    int[][] clipped = new int[groups][];
    for (int g = 0; g < groups; g++) {
      int[] ids = blocks.toArray(g);
      int n = cacheSpec.groups().get(g).sendableBlocks(ids.length);
      clipped[g] = n == ids.length ? ids : Arrays.copyOfRange(ids, ids.length - n, ids.length);
    }
    return BlockIds.ofGroups(clipped);
  }

  private boolean travelWhole(BlockIds blocks) {
    for (int g = 0; g < blocks.groupCount(); g++) {
      if (cacheSpec.groups().get(g).sendableBlocks(blocks.size(g)) < blocks.size(g)) {
        return false;
      }
    }
    return true;
  }

  private void requireGroups(BlockIds blocks) {
    if (!blocks.isEmpty() && blocks.groupCount() != cacheSpec.groups().size()) {
      throw new IllegalArgumentException(
          "block_groups="
              + blocks.groupCount()
              + " does not fit the configured cache_groups="
              + cacheSpec.groups().size()
              + ": give one list of ids for each group");
    }
  }

  private static void requireNotNegative(String name, int value) {
    if (value < 0) {
      throw new IllegalArgumentException(name + "=" + value + " is negative");
    }
  }

  /** An id from outside, cut short and without what would break a line of the log. */
  private static String shown(String id) {
    String cut = id.length() <= MAX_SHOWN_CHARS ? id : id.substring(0, MAX_SHOWN_CHARS) + "…";
    return cut.replaceAll("\\p{Cntrl}", "?");
  }
}
