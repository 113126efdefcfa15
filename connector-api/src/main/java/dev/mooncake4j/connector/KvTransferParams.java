package dev.mooncake4j.connector;

import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The {@code kv_transfer_params} of one request, as a proxy sets them.
 *
 * <p>Names and values are those of vLLM's MooncakeConnector; what is missing stays {@code null} and
 * is judged by the scheduler side, which warns and transfers nothing. Immutable.
 *
 * @param doRemoteDecode this engine prefills, another one decodes
 * @param doRemotePrefill another engine prefills, this one decodes
 * @param transferId the name of the transfer, the same on both sides
 * @param remoteEngineId the prefiller's engine id (decoder only)
 * @param remoteBootstrapAddr the prefiller's bootstrap server, an http URL with no path (decoder
 *     only)
 * @param traceparent the request's place in a trace, as the W3C header of this name has it; one
 *     that is malformed is ignored. Of ours: a vLLM ignores it
 */
public record KvTransferParams(
    boolean doRemoteDecode,
    boolean doRemotePrefill,
    @Nullable String transferId,
    @Nullable String remoteEngineId,
    @Nullable String remoteBootstrapAddr,
    @Nullable String traceparent)
    implements Serializable {

  /** Parameters of a request that is in no trace. */
  public KvTransferParams(
      boolean doRemoteDecode,
      boolean doRemotePrefill,
      @Nullable String transferId,
      @Nullable String remoteEngineId,
      @Nullable String remoteBootstrapAddr) {
    this(doRemoteDecode, doRemotePrefill, transferId, remoteEngineId, remoteBootstrapAddr, null);
  }

  /** What the prefiller is given: keep the blocks under this id until a decoder fetches them. */
  public static KvTransferParams forPrefiller(String transferId) {
    return new KvTransferParams(true, false, transferId, null, null);
  }

  /** What the decoder is given: fetch the blocks of this id from that prefiller. */
  public static KvTransferParams forDecoder(
      String transferId, String remoteEngineId, String remoteBootstrapAddr) {
    return new KvTransferParams(false, true, transferId, remoteEngineId, remoteBootstrapAddr);
  }

  /**
   * The same parameters in a trace: for a server that takes the header {@code traceparent} of its
   * request.
   *
   * @param header the header's value, or {@code null} for none
   */
  public KvTransferParams withTraceparent(@Nullable String header) {
    return new KvTransferParams(
        doRemoteDecode, doRemotePrefill, transferId, remoteEngineId, remoteBootstrapAddr, header);
  }

  /**
   * Reads the parameters from a parsed JSON object; unknown keys are ignored, and so is a {@code
   * traceparent} that is no text: a trace never fails a request.
   *
   * @throws IllegalArgumentException if a known key has a value of the wrong type
   */
  public static KvTransferParams fromMap(Map<String, ? extends @Nullable Object> map) {
    return new KvTransferParams(
        flag(map, "do_remote_decode"),
        flag(map, "do_remote_prefill"),
        text(map, "transfer_id"),
        text(map, "remote_engine_id"),
        text(map, "remote_bootstrap_addr"),
        map.get("traceparent") instanceof String header ? header : null);
  }

  /** The parameters as a JSON object would hold them; absent values are left out. */
  public Map<String, Object> toMap() {
    Map<String, Object> map = new LinkedHashMap<>();
    map.put("do_remote_decode", doRemoteDecode);
    map.put("do_remote_prefill", doRemotePrefill);
    if (transferId != null) {
      map.put("transfer_id", transferId);
    }
    if (remoteEngineId != null) {
      map.put("remote_engine_id", remoteEngineId);
    }
    if (remoteBootstrapAddr != null) {
      map.put("remote_bootstrap_addr", remoteBootstrapAddr);
    }
    if (traceparent != null) {
      map.put("traceparent", traceparent);
    }
    return map;
  }

  private static boolean flag(Map<String, ? extends @Nullable Object> map, String key) {
    Object value = map.get(key);
    if (value == null) {
      return false;
    }
    if (value instanceof Boolean b) {
      return b;
    }
    throw new IllegalArgumentException(
        "kv_transfer_params." + key + "=" + value + " is not a boolean: give true or false");
  }

  private static @Nullable String text(Map<String, ? extends @Nullable Object> map, String key) {
    Object value = map.get(key);
    if (value == null || value instanceof String) {
      return (String) value;
    }
    throw new IllegalArgumentException(
        "kv_transfer_params." + key + "=" + value + " is not a string: give it in quotes");
  }
}
