package dev.mooncake4j.core.producer;

import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.plan.PeerPlan;
import dev.mooncake4j.core.wire.PullRequest;
import dev.mooncake4j.core.wire.TransferDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * One pull request being served: who asked, how its layout pairs with ours, which of its requests
 * are still to be answered, and what the next answer will say. Owned by the worker loop.
 */
final class ServedPull {
  /** Different reasons told in one answer: each names its transfer, and a pull has thousands. */
  private static final int MAX_REASONS = 8;

  final PeerIdentity from;
  final PullRequest request;

  /** The decoder's engine, {@code host:port}. */
  final String session;

  /** {@code null} when the pull only releases, so that nothing is to be planned. */
  final @Nullable PeerPlan plan;

  /** How many decoder ranks must be served before a transfer is over. */
  final int ranksToServe;

  private final List<String> ok = new ArrayList<>();
  private final List<String> failed = new ArrayList<>();
  private final Map<String, TransferDigest> digests = new HashMap<>();
  private final Set<String> reasons = new LinkedHashSet<>();
  private int furtherReasons;
  private int unanswered;

  ServedPull(
      PeerIdentity from,
      PullRequest request,
      String session,
      @Nullable PeerPlan plan,
      int ranksToServe) {
    this.from = from;
    this.request = request;
    this.session = session;
    this.plan = plan;
    this.ranksToServe = ranksToServe;
    this.unanswered = request.entries().size();
  }

  void ok(String requestId) {
    ok.add(requestId);
  }

  /** What is told of the bytes of a request that is done. */
  void digest(String requestId, TransferDigest digest) {
    digests.put(requestId, digest);
  }

  void failed(String requestId, String reason) {
    failed.add(requestId);
    if (reasons.size() < MAX_REASONS) {
      reasons.add(reason);
    } else if (!reasons.contains(reason)) {
      furtherReasons++;
    }
  }

  /** What has been settled since the last answer, or {@code null} if nothing has. */
  @Nullable Answer takeAnswer() {
    int settled = ok.size() + failed.size();
    if (settled == 0) {
      return null;
    }
    unanswered -= settled;
    Answer answer =
        new Answer(
            unanswered == 0, List.copyOf(ok), List.copyOf(failed), message(), Map.copyOf(digests));
    digests.clear();
    ok.clear();
    failed.clear();
    reasons.clear();
    furtherReasons = 0;
    return answer;
  }

  private @Nullable String message() {
    if (reasons.isEmpty()) {
      return null;
    }
    String text = String.join("; ", reasons);
    return furtherReasons == 0 ? text : text + "; and others, failures=" + furtherReasons;
  }

  record Answer(
      boolean last,
      List<String> ok,
      List<String> failed,
      @Nullable String message,
      Map<String, TransferDigest> digests) {}
}
