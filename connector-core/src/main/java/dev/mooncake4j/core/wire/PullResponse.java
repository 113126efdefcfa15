package dev.mooncake4j.core.wire;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A prefiller's answer: {@code MooncakeXferResponse} in vLLM.
 *
 * @param status what it is
 * @param ok requests that are done; {@code null} where the field was absent or nil
 * @param failed requests that have failed; {@code null} where the field was absent or nil
 * @param message why, or {@code null}
 * @param layoutId the layout that the prefiller keeps now, 64 bits, or 0
 * @param quiet whether nothing is being written any more for the requests that have failed; a field
 *     of ours that vLLM does not know and ignores
 * @param digests of requests that are done, where they were asked for and could be taken; ours too
 */
public record PullResponse(
    Status status,
    @Nullable List<String> ok,
    @Nullable List<String> failed,
    @Nullable String message,
    long layoutId,
    boolean quiet,
    Map<String, TransferDigest> digests) {

  /** An answer without digests. */
  public PullResponse(
      Status status,
      @Nullable List<String> ok,
      @Nullable List<String> failed,
      @Nullable String message,
      long layoutId,
      boolean quiet) {
    this(status, ok, failed, message, layoutId, quiet, Map.of());
  }

  /** What an answer is. */
  public enum Status {
    /** The last answer to a pull; requests that no answer has named have failed. */
    FINISH(0),
    /** Some requests are done, others go on. */
    CONTINUE(1),
    /** The whole pull is refused; nothing was written. */
    ERROR(2),
    /** The layout named is not kept: send it again. */
    LAYOUT_MISS(3);

    private final int code;

    Status(int code) {
      this.code = code;
    }

    /** Its number on the wire. */
    int code() {
      return code;
    }
  }

  /** Copies the collections. */
  public PullResponse {
    digests = Map.copyOf(digests);
    ok = ok == null ? null : List.copyOf(ok);
    failed = failed == null ? null : List.copyOf(failed);
  }

  /** The last answer; quiet, since ours tells a failure only then. */
  public static PullResponse finished(
      List<String> ok, List<String> failed, @Nullable String message, long layoutId) {
    return of(Status.FINISH, ok, failed, message, layoutId);
  }

  /** An answer with more to follow. */
  public static PullResponse partial(
      List<String> ok, List<String> failed, @Nullable String message, long layoutId) {
    return of(Status.CONTINUE, ok, failed, message, layoutId);
  }

  private static PullResponse of(
      Status status,
      List<String> ok,
      List<String> failed,
      @Nullable String message,
      long layoutId) {
    return new PullResponse(
        status,
        ok.isEmpty() ? null : ok,
        failed.isEmpty() ? null : failed,
        message,
        layoutId,
        !failed.isEmpty());
  }

  /** Refuses a whole pull. */
  public static PullResponse error(String message, long layoutId) {
    return new PullResponse(Status.ERROR, null, null, message, layoutId, false);
  }

  /** Asks for the layout again. */
  public static PullResponse layoutMiss(String message) {
    return new PullResponse(Status.LAYOUT_MISS, null, null, message, 0, false);
  }

  /** This with digests. */
  public PullResponse withDigests(Map<String, TransferDigest> taken) {
    return new PullResponse(status, ok, failed, message, layoutId, quiet, taken);
  }

  /** Requests that are done. */
  public List<String> okRequests() {
    return ok == null ? List.of() : ok;
  }

  /** Requests that have failed. */
  public List<String> errorRequests() {
    return failed == null ? List.of() : failed;
  }
}
