package dev.mooncake4j.core.wire;

import dev.mooncake4j.connector.BlockIds;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.jspecify.annotations.Nullable;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** A side channel message that vLLM 0.33.0 has written: its bytes and the fields in them. */
record Recorded(String name, String hex, JsonNode fields) {
  private static final JsonMapper JSON = JsonMapper.builder().build();

  /** The captures that hold messages which vLLM has sent. */
  private static final List<String> CAPTURES =
      List.of(
          "pull_fewer_blocks_on_D",
          "pull_release_empty_blocks",
          "pull_request_with_layout",
          "pull_request_without_layout",
          "response_CONTINUE_then_FINISH",
          "response_ERROR",
          "response_FINISH_err_timeout",
          "response_FINISH_err_too_few_blocks",
          "response_FINISH_ok",
          "response_LAYOUT_MISS_then_resend",
          "responses_raw_client",
          "zmq_conversations");

  /**
   * vLLM's encoder's answers; from the folder that the system property {@code mooncake4j.answers}
   * names, if it is set.
   */
  static List<Recorded> answers() {
    String file = "side_channel_messages.json";
    String folder = System.getProperty("mooncake4j.answers");
    JsonNode cases;
    if (folder == null) {
      cases = resource("vllm-answers/" + file);
    } else {
      try (InputStream in = Files.newInputStream(Path.of(folder, file))) {
        cases = JSON.readTree(in);
      } catch (IOException e) {
        throw new IllegalStateException("cannot read " + file + " in folder=" + folder, e);
      }
    }
    List<Recorded> found = new ArrayList<>();
    for (JsonNode one : cases) {
      found.add(
          new Recorded(
              one.get("type").stringValue() + "[" + found.size() + "]",
              one.get("hex").stringValue(),
              one.get("fields")));
    }
    return found;
  }

  /** Every message that a running vLLM was seen to send. */
  static List<Recorded> captures() {
    List<Recorded> found = new ArrayList<>();
    for (String capture : CAPTURES) {
      int before = found.size();
      collect(capture, resource("wire-captures/" + capture + ".json"), found);
      if (found.size() == before) {
        throw new IllegalStateException(capture + ".json holds no message");
      }
    }
    return found;
  }

  private static void collect(String name, JsonNode node, List<Recorded> into) {
    if (node.has("payload_hex")) {
      into.add(new Recorded(name, node.get("payload_hex").stringValue(), node.get("decoded")));
    } else if (node.has("frames") && node.has("decoded")) {
      into.add(new Recorded(name, node.get("frames").get(0).stringValue(), node.get("decoded")));
    } else if (node.isObject()) {
      for (String key : node.propertyNames()) {
        collect(name + "/" + key, node.get(key), into);
      }
    } else if (node.isArray()) {
      for (int i = 0; i < node.size(); i++) {
        collect(name + "/" + i, node.get(i), into);
      }
    }
  }

  /** A JSON file among the test resources. */
  static JsonNode resource(String name) {
    try (InputStream in = Recorded.class.getResourceAsStream("/" + name)) {
      if (in == null) {
        throw new IllegalStateException(name + " is not among the test resources");
      }
      return JSON.readTree(in);
    } catch (IOException e) {
      throw new IllegalStateException("cannot read " + name, e);
    }
  }

  boolean isResponse() {
    return fields.has("status");
  }

  byte[] bytes() {
    return HexFormat.of().parseHex(hex);
  }

  /** Our message with these fields. */
  Object message() {
    return isResponse() ? response(fields) : pull(fields);
  }

  /** Reads bytes as the kind of message that this one is. */
  Object decode(byte[] message) throws MalformedMessageException {
    return isResponse() ? WireCodec.decodeResponse(message) : WireCodec.decodeRequest(message);
  }

  /** Any message's bytes. */
  static byte[] encode(Object message) {
    return switch (message) {
      case PullRequest pull -> WireCodec.encode(pull);
      case RenewRequest renew -> WireCodec.encode(renew);
      case ReleaseRequest release -> WireCodec.encode(release);
      case PullResponse response -> WireCodec.encode(response);
      default -> throw new IllegalArgumentException("not a message: " + message);
    };
  }

  @Override
  public String toString() {
    return name;
  }

  static PullRequest pull(JsonNode f) {
    List<PullEntry> entries = new ArrayList<>();
    JsonNode requests = f.get("req_blocks");
    for (String id : requests.propertyNames()) {
      JsonNode value = requests.get(id);
      entries.add(
          new PullEntry(id, value.get(0).stringValue(), BlockIds.ofGroups(intLists(value.get(1)))));
    }
    return new PullRequest(
        f.get("remote_hostname").stringValue(),
        f.get("remote_port").intValue(),
        f.get("remote_tp_size").intValue(),
        f.get("remote_tp_rank").intValue(),
        entries,
        new WireLayout(
            longs(f.get("kv_caches_base_addr")),
            longs(f.get("block_lens")),
            longs(f.get("kv_block_lens")),
            strings(f.get("registered_layer_names")).toArray(String[]::new),
            ints(f.get("registered_layer_indices")),
            ints(f.get("registered_group_indices")),
            intLists(f.get("registered_shared_group_ids")),
            longs(f.get("registered_row_offsets"))),
        f.has("remote_pp_size") ? f.get("remote_pp_size").intValue() : 1,
        f.has("layout_id") ? bits(f.get("layout_id")) : 0);
  }

  private static PullResponse response(JsonNode f) {
    return new PullResponse(
        java.util.Arrays.stream(PullResponse.Status.values())
            .filter(status -> status.code() == f.get("status").intValue())
            .findFirst()
            .orElseThrow(),
        f.has("ok_reqs") ? strings(f.get("ok_reqs")) : null,
        f.has("err_reqs") ? strings(f.get("err_reqs")) : null,
        f.has("err_msg") ? f.get("err_msg").stringValue() : null,
        f.has("layout_id") ? bits(f.get("layout_id")) : 0,
        false);
  }

  private static long bits(JsonNode number) {
    return number.bigIntegerValue().longValue();
  }

  private static List<String> strings(@Nullable JsonNode list) {
    List<String> out = new ArrayList<>();
    if (list != null) {
      list.forEach(v -> out.add(v.stringValue()));
    }
    return out;
  }

  private static long[] longs(@Nullable JsonNode list) {
    long[] out = new long[list == null ? 0 : list.size()];
    for (int i = 0; list != null && i < out.length; i++) {
      out[i] = bits(list.get(i));
    }
    return out;
  }

  private static int[] ints(@Nullable JsonNode list) {
    int[] out = new int[list == null ? 0 : list.size()];
    for (int i = 0; list != null && i < out.length; i++) {
      out[i] = list.get(i).intValue();
    }
    return out;
  }

  private static int[][] intLists(@Nullable JsonNode list) {
    int[][] out = new int[list == null ? 0 : list.size()][];
    for (int i = 0; list != null && i < out.length; i++) {
      out[i] = ints(list.get(i));
    }
    return out;
  }
}
