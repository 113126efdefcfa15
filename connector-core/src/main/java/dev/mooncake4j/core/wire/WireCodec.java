package dev.mooncake4j.core.wire;

import dev.mooncake4j.connector.BlockIds;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Messages to bytes and back.
 *
 * <p>Fields are written in vLLM's order and left out at their default. What is read may have its
 * fields in any order, twice (the last counts) and others beside them, as vLLM's reader takes it;
 * types are as strict as there.
 */
public final class WireCodec {
  /** A pull of 8,192 blocks for each of 500 requests; far above what a step has. */
  public static final int MAX_MESSAGE_BYTES = 64 << 20;

  private WireCodec() {}

  /** A pull request's bytes. */
  public static byte[] encode(PullRequest pull) {
    WireLayout layout = pull.layout();
    MessagePackWriter out = MessagePackWriter.forBlockIds(blockIds(pull));
    out.mapHeader(
        8
            + (layout.layerNames.length > 0 ? 1 : 0)
            + (layout.layerIndices.length > 0 ? 1 : 0)
            + (layout.groupIndices.length > 0 ? 1 : 0)
            + (layout.sharedGroupIds.length > 0 ? 1 : 0)
            + (layout.rowOffsets.length > 0 ? 1 : 0)
            + (pull.remotePpSize() != 1 ? 1 : 0)
            + (pull.layoutId() != 0 ? 1 : 0)
            + (pull.fingerprint() != null ? 1 : 0)
            + (pull.digest() ? 1 : 0));
    out.string("remote_hostname");
    out.string(pull.remoteHostname());
    out.string("remote_port");
    out.integer(pull.remotePort());
    out.string("remote_tp_size");
    out.integer(pull.remoteTpSize());
    out.string("remote_tp_rank");
    out.integer(pull.remoteTpRank());
    out.string("req_blocks");
    writeEntries(out, pull.entries());
    writeLayout(out, layout);
    if (pull.remotePpSize() != 1) {
      out.string("remote_pp_size");
      out.integer(pull.remotePpSize());
    }
    if (pull.layoutId() != 0) {
      out.string("layout_id");
      out.unsigned(pull.layoutId());
    }
    String fingerprint = pull.fingerprint();
    if (fingerprint != null) {
      out.string("kv_cache_fingerprint");
      out.string(fingerprint);
    }
    if (pull.digest()) {
      out.string("digest");
      out.bool(true);
    }
    return out.toBytes();
  }

  private static long blockIds(PullRequest pull) {
    long ids = 0;
    for (PullEntry entry : pull.entries()) {
      ids += entry.blocks().totalSize();
    }
    return ids;
  }

  private static void writeEntries(MessagePackWriter out, List<PullEntry> entries) {
    out.mapHeader(entries.size());
    for (PullEntry entry : entries) {
      out.string(entry.requestId());
      out.arrayHeader(2);
      out.string(entry.transferId());
      BlockIds blocks = entry.blocks();
      out.arrayHeader(blocks.groupCount());
      for (int g = 0; g < blocks.groupCount(); g++) {
        out.blockIds(blocks, g);
      }
    }
  }

  private static void writeLayout(MessagePackWriter out, WireLayout layout) {
    out.string("kv_caches_base_addr");
    out.arrayHeader(layout.baseAddresses.length);
    for (long address : layout.baseAddresses) {
      out.unsigned(address);
    }
    writeLongs(out, "block_lens", layout.blockLens, true);
    writeLongs(out, "kv_block_lens", layout.kvBlockLens, true);
    if (layout.layerNames.length > 0) {
      out.string("registered_layer_names");
      out.strings(List.of(layout.layerNames));
    }
    writeInts(out, "registered_layer_indices", layout.layerIndices);
    writeInts(out, "registered_group_indices", layout.groupIndices);
    if (layout.sharedGroupIds.length > 0) {
      out.string("registered_shared_group_ids");
      out.arrayHeader(layout.sharedGroupIds.length);
      for (int[] groups : layout.sharedGroupIds) {
        out.integers(groups);
      }
    }
    writeLongs(out, "registered_row_offsets", layout.rowOffsets, false);
  }

  private static void writeLongs(
      MessagePackWriter out, String name, long[] values, boolean always) {
    if (values.length > 0 || always) {
      out.string(name);
      out.arrayHeader(values.length);
      for (long value : values) {
        out.integer(value);
      }
    }
  }

  private static void writeInts(MessagePackWriter out, String name, int[] values) {
    if (values.length > 0) {
      out.string(name);
      out.integers(values);
    }
  }

  /** A renewal's bytes. */
  public static byte[] encode(RenewRequest renew) {
    MessagePackWriter out = new MessagePackWriter();
    renew.write(out);
    return out.toBytes();
  }

  /** A release's bytes. */
  public static byte[] encode(ReleaseRequest release) {
    MessagePackWriter out = new MessagePackWriter();
    release.write(out);
    return out.toBytes();
  }

  /** An answer's bytes. */
  public static byte[] encode(PullResponse response) {
    List<String> ok = response.ok();
    List<String> failed = response.failed();
    String message = response.message();
    MessagePackWriter out = new MessagePackWriter();
    out.mapHeader(
        1
            + (ok != null ? 1 : 0)
            + (failed != null ? 1 : 0)
            + (message != null ? 1 : 0)
            + (response.layoutId() != 0 ? 1 : 0)
            + (response.quiet() ? 1 : 0)
            + (response.digests().isEmpty() ? 0 : 1));
    out.string("status");
    out.integer(response.status().code());
    if (ok != null) {
      out.string("ok_reqs");
      out.strings(ok);
    }
    if (failed != null) {
      out.string("err_reqs");
      out.strings(failed);
    }
    if (message != null) {
      out.string("err_msg");
      out.string(message);
    }
    if (response.layoutId() != 0) {
      out.string("layout_id");
      out.unsigned(response.layoutId());
    }
    if (response.quiet()) {
      out.string("quiet");
      out.bool(true);
    }
    if (!response.digests().isEmpty()) {
      out.string("digests");
      out.mapHeader(response.digests().size());
      response
          .digests()
          .forEach(
              (requestId, digest) -> {
                out.string(requestId);
                digest.write(out);
              });
    }
    return out.toBytes();
  }

  /**
   * Reads what a decoder asks.
   *
   * @throws MalformedMessageException if it is none of the messages known
   */
  public static SideChannelRequest decodeRequest(byte[] message) throws MalformedMessageException {
    return new RequestReader(reader(message)).read();
  }

  /**
   * Reads a prefiller's answer.
   *
   * @throws MalformedMessageException if it is not one
   */
  public static PullResponse decodeResponse(byte[] message) throws MalformedMessageException {
    MessagePackReader in = reader(message);
    PullResponse.@Nullable Status status = null;
    List<String> ok = null;
    List<String> failed = null;
    String text = null;
    long layoutId = 0;
    boolean quiet = false;
    Map<String, TransferDigest> digests = Map.of();
    int fields = in.readMapHeader();
    for (int i = 0; i < fields; i++) {
      in.field("key");
      String name = in.readName();
      in.field(name);
      switch (name) {
        case "status" -> status = status(in);
        case "ok_reqs" -> ok = in.readNil() ? null : List.of(in.readStrings());
        case "err_reqs" -> failed = in.readNil() ? null : List.of(in.readStrings());
        case "err_msg" -> text = in.readNil() ? null : in.readString();
        case "layout_id" -> layoutId = in.readBits();
        case "quiet" -> quiet = in.readBoolean();
        case "digests" -> digests = readDigests(in);
        default -> in.skip();
      }
    }
    end(in);
    if (status == null) {
      in.field("status");
      throw in.malformed("required field is missing");
    }
    return new PullResponse(status, ok, failed, text, layoutId, quiet, digests);
  }

  private static Map<String, TransferDigest> readDigests(MessagePackReader in)
      throws MalformedMessageException {
    int n = in.readMapHeader();
    Map<String, TransferDigest> digests = new HashMap<>();
    for (int i = 0; i < n; i++) {
      String requestId = in.readString();
      digests.put(requestId, TransferDigest.read(in));
    }
    return digests;
  }

  private static PullResponse.Status status(MessagePackReader in) throws MalformedMessageException {
    long value = in.readLong();
    for (PullResponse.Status status : PullResponse.Status.values()) {
      if (status.code() == value) {
        return status;
      }
    }
    throw in.malformed("status=" + value + " is not 0 to 3");
  }

  private static MessagePackReader reader(byte[] message) throws MalformedMessageException {
    MessagePackReader in = new MessagePackReader(message);
    if (message.length > MAX_MESSAGE_BYTES) {
      throw in.malformed("length=" + message.length + " is more than " + MAX_MESSAGE_BYTES);
    }
    return in;
  }

  private static void end(MessagePackReader in) throws MalformedMessageException {
    in.field("");
    if (!in.atEnd()) {
      throw in.malformed("bytes follow the message");
    }
  }

  /** Collects a request's fields as they come. */
  private static final class RequestReader {
    private final MessagePackReader in;
    private @Nullable String hostname;
    private @Nullable Integer port;
    private @Nullable Integer tpSize;
    private @Nullable Integer tpRank;
    private @Nullable List<PullEntry> entries;
    private long @Nullable [] bases;
    private long @Nullable [] blockLens;
    private long @Nullable [] kvBlockLens;
    private String[] names = new String[0];
    private int[] layerIndices = new int[0];
    private int[] groupIndices = new int[0];
    private int[][] shared = new int[0][];
    private long[] rowOffsets = new long[0];
    private int ppSize = 1;
    private long layoutId;
    private @Nullable String fingerprint;
    private boolean digest;
    private @Nullable List<String> renew;
    private @Nullable List<String> release;

    RequestReader(MessagePackReader in) {
      this.in = in;
    }

    SideChannelRequest read() throws MalformedMessageException {
      int fields = in.readMapHeader();
      for (int i = 0; i < fields; i++) {
        in.field("key");
        String name = in.readName();
        in.field(name);
        readField(name);
      }
      end(in);
      if (renew != null) {
        return new RenewRequest(renew);
      }
      if (release != null) {
        return new ReleaseRequest(release);
      }
      return pull();
    }

    private void readField(String name) throws MalformedMessageException {
      switch (name) {
        case "remote_hostname" -> hostname = in.readString();
        case "remote_port" -> port = in.readInt();
        case "remote_tp_size" -> tpSize = in.readInt();
        case "remote_tp_rank" -> tpRank = in.readInt();
        case "req_blocks" -> entries = readEntries();
        case "kv_caches_base_addr" -> bases = in.readLongs(true);
        case "block_lens" -> blockLens = in.readLongs(false);
        case "kv_block_lens" -> kvBlockLens = in.readLongs(false);
        case "registered_layer_names" -> names = in.readStrings();
        case "registered_layer_indices" -> layerIndices = in.readInts();
        case "registered_group_indices" -> groupIndices = in.readInts();
        case "registered_shared_group_ids" -> shared = in.readIntLists();
        case "registered_row_offsets" -> rowOffsets = in.readLongs(false);
        case "remote_pp_size" -> ppSize = in.readInt();
        case "layout_id" -> layoutId = in.readBits();
        case "kv_cache_fingerprint" -> fingerprint = in.readNil() ? null : in.readString();
        case "digest" -> digest = in.readBoolean();
        case RenewRequest.FIELD -> renew = List.of(in.readStrings());
        case ReleaseRequest.FIELD -> release = List.of(in.readStrings());
        default -> in.skip();
      }
    }

    private List<PullEntry> readEntries() throws MalformedMessageException {
      int n = in.readMapHeader();
      Map<String, PullEntry> byRequest = new LinkedHashMap<>();
      for (int i = 0; i < n; i++) {
        String requestId = in.readString();
        int two = in.readArrayHeader();
        if (two != 2) {
          throw in.malformed("request_id=" + requestId + " has length=" + two + ", not 2");
        }
        String transferId = in.readString();
        BlockIds blocks = BlockIds.ofGroups(in.readIntLists());
        byRequest.put(requestId, new PullEntry(requestId, transferId, blocks));
      }
      return new ArrayList<>(byRequest.values());
    }

    private PullRequest pull() throws MalformedMessageException {
      WireLayout layout =
          new WireLayout(
              required("kv_caches_base_addr", bases),
              required("block_lens", blockLens),
              required("kv_block_lens", kvBlockLens),
              names,
              layerIndices,
              groupIndices,
              shared,
              rowOffsets);
      String problem = layout.lengthProblem();
      if (!problem.isEmpty()) {
        throw in.malformed("layout lists differ:" + problem);
      }
      return new PullRequest(
          required("remote_hostname", hostname),
          required("remote_port", port),
          required("remote_tp_size", tpSize),
          required("remote_tp_rank", tpRank),
          required("req_blocks", entries),
          layout,
          ppSize,
          layoutId,
          fingerprint,
          digest);
    }

    private <T> T required(String name, @Nullable T value) throws MalformedMessageException {
      if (value == null) {
        in.field(name);
        throw in.malformed("required field is missing");
      }
      return value;
    }
  }
}
