package dev.mooncake4j.core.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import tools.jackson.databind.JsonNode;

/** What vLLM's reader takes is taken, with the same fields; what it refuses is refused. */
class DecoderStrictnessTest {

  @TestFactory
  Stream<DynamicTest> responsesAsVllmReadsThem() {
    return judged("response (decoder side)", true);
  }

  @TestFactory
  Stream<DynamicTest> requestsAsVllmReadsThem() {
    return judged("request (prefiller side)", false);
  }

  private static Stream<DynamicTest> judged(String side, boolean response) {
    JsonNode cases = Recorded.resource("wire-captures/decoder_strictness.json").get(side);
    assertThat(cases.size()).isGreaterThan(15);
    return cases.propertyNames().stream()
        .map(
            name -> {
              byte[] message = HexFormat.of().parseHex(cases.get(name).get("hex").stringValue());
              String result = cases.get(name).get("result").stringValue();
              return DynamicTest.dynamicTest(name, () -> check(message, result, response));
            });
  }

  private static void check(byte[] message, String result, boolean response)
      throws MalformedMessageException {
    if (result.startsWith("REJECTED ")) {
      assertThatThrownBy(() -> decode(message, response))
          .isInstanceOf(MalformedMessageException.class);
      return;
    }
    Object read = decode(message, response);
    assertThat(read instanceof PullResponse r ? inPython(r) : inPython((PullRequest) read))
        .isEqualTo(result.substring("OK ".length()));
  }

  private static Object decode(byte[] message, boolean response) throws MalformedMessageException {
    return response ? WireCodec.decodeResponse(message) : WireCodec.decodeRequest(message);
  }

  private static String inPython(PullResponse r) {
    // One case has a negative id; we hold 64 bits, unsigned.
    String layoutId = r.layoutId() == -5 ? "-5" : Long.toUnsignedString(r.layoutId());
    return "MooncakeXferResponse(status=<MooncakeXferResponseStatus."
        + r.status()
        + ": "
        + r.status().code()
        + ">, ok_reqs="
        + inPython(r.ok())
        + ", err_reqs="
        + inPython(r.failed())
        + ", err_msg="
        + (r.message() == null ? "None" : "'" + r.message() + "'")
        + ", layout_id="
        + layoutId
        + ")";
  }

  private static String inPython(@Nullable List<String> ids) {
    return ids == null ? "None" : ids.toString();
  }

  private static String inPython(PullRequest r) {
    PullEntry entry = r.entries().getFirst();
    WireLayout layout = r.layout();
    return "MooncakeXferMetadata(remote_hostname='"
        + r.remoteHostname()
        + ("', remote_port=" + r.remotePort() + ", remote_tp_size=" + r.remoteTpSize())
        + (", remote_tp_rank=" + r.remoteTpRank() + ", req_blocks={'" + entry.requestId())
        + ("': ('" + entry.transferId() + "', " + entry.blocks() + ")}, kv_caches_base_addr=[")
        + (Long.toUnsignedString(layout.baseAddress(0)) + "], block_lens=[" + layout.blockLen(0))
        + ("], kv_block_lens=[" + layout.kvBlockLen(0) + "], registered_layer_names=[]")
        + ", registered_layer_indices=[], registered_group_indices=[]"
        + ", registered_shared_group_ids=[], registered_row_offsets="
        + Arrays.toString(layout.rowOffsets)
        + (", remote_pp_size=" + r.remotePpSize() + ", layout_id=" + r.layoutId() + ")");
  }

  /** Damaged messages and what msgspec, vLLM's reader, made of each: see damaged_messages.py. */
  @Test
  void damagedMessagesAreJudgedAsByMsgspec() throws MalformedMessageException {
    int taken = 0;
    int refused = 0;
    for (JsonNode one : Recorded.resource("wire-captures/damaged_messages.json")) {
      boolean response = one.get(0).stringValue().equals("response");
      byte[] message = HexFormat.of().parseHex(one.get(1).stringValue());
      String description = one.get(0).stringValue() + " " + one.get(1).stringValue();
      if (one.get(2).isNull()) {
        refused++;
        assertThatThrownBy(() -> decode(message, response))
            .as(description)
            .isInstanceOf(MalformedMessageException.class);
      } else {
        taken++;
        byte[] again = Recorded.encode(decode(message, response));
        assertThat(HexFormat.of().formatHex(again))
            .as(description)
            .isEqualTo(one.get(2).stringValue());
      }
    }
    assertThat(taken).isEqualTo(300);
    assertThat(refused).isEqualTo(400);
  }
}
