package dev.mooncake4j.core.producer;

import dev.mooncake4j.core.channel.PeerIdentity;
import dev.mooncake4j.core.plan.PeerPlan;
import dev.mooncake4j.core.wire.PullRequest;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One pull request being served: who asked, how its layout pairs with ours, which of its requests
 * are still to be answered, and what the next answer will say. Owned by the worker loop.
 */
final class ServedPull {
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
  private final List<String> reasons = new ArrayList<>();
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

  void failed(String requestId, String reason) {
    failed.add(requestId);
    if (!reasons.contains(reason)) {
      reasons.add(reason);
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
            unanswered == 0,
            List.copyOf(ok),
            List.copyOf(failed),
            reasons.isEmpty() ? null : String.join("; ", reasons));
    ok.clear();
    failed.clear();
    reasons.clear();
    return answer;
  }

  record Answer(boolean last, List<String> ok, List<String> failed, @Nullable String message) {}
}
