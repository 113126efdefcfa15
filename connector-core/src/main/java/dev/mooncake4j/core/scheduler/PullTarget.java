package dev.mooncake4j.core.scheduler;

import dev.mooncake4j.connector.KvTransferParams;
import dev.mooncake4j.connector.TraceContext;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Where a decoder's request fetches from: the three parameters that it needs, all there, and the
 * trace that it is in.
 */
record PullTarget(
    String transferId,
    String remoteEngineId,
    String remoteBootstrapAddr,
    @Nullable TraceContext trace) {

  /** The parameters' target; only of parameters that lack nothing. */
  static PullTarget of(KvTransferParams params, @Nullable TraceContext trace) {
    return new PullTarget(
        Objects.requireNonNull(params.transferId()),
        Objects.requireNonNull(params.remoteEngineId()),
        Objects.requireNonNull(params.remoteBootstrapAddr()),
        trace);
  }

  /** The names of the parameters that are missing or empty. */
  static List<String> missing(KvTransferParams params) {
    return Stream.of("transfer_id", "remote_engine_id", "remote_bootstrap_addr")
        .filter(name -> !(params.toMap().get(name) instanceof String text) || text.isEmpty())
        .toList();
  }
}
