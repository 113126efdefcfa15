package dev.mooncake4j.core.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import tools.jackson.databind.JsonNode;

/** What a running vLLM has sent is read, and written again as it was. */
class CapturedMessagesTest {

  static List<Recorded> captures() {
    return Recorded.captures();
  }

  @Test
  void theCapturesAreAllThere() {
    assertThat(captures()).hasSize(61);
    assertThat(captures().stream().filter(c -> !c.isResponse())).hasSize(18);
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("captures")
  void decodesToTheSameFields(Recorded capture) throws MalformedMessageException {
    assertThat(capture.decode(capture.bytes())).isEqualTo(capture.message());
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("captures")
  void encodesToTheSameBytes(Recorded capture) throws MalformedMessageException {
    byte[] again = Recorded.encode(capture.decode(capture.bytes()));
    assertThat(HexFormat.of().formatHex(again)).isEqualTo(capture.hex());
  }

  @Test
  void theFramesOfTheCapturedConnectionAreMessages() throws MalformedMessageException {
    JsonNode handshake = Recorded.resource("wire-captures/zmtp_handshake.json");
    byte[] request = hex(handshake.at("/client/frames/1/body"));
    byte[] response = hex(handshake.at("/server/frames/1/body"));
    assertThat(Recorded.encode(WireCodec.decodeRequest(request))).isEqualTo(request);
    assertThat(Recorded.encode(WireCodec.decodeResponse(response))).isEqualTo(response);
  }

  /** A plain client sent these, fields in an order of its own; vLLM answered each as told. */
  @Test
  void readsFromAPlainClientWhatVllmReads() throws MalformedMessageException {
    Set<String> unreadable =
        Set.of(
            "malformed_msgpack",
            "not_a_map",
            "missing_required_field",
            "wrong_type_block_id",
            "two_frames_payload");
    JsonNode cases = Recorded.resource("wire-captures/responses_raw_client.json").get("cases");
    assertThat(cases.size()).isEqualTo(16);
    for (String name : cases.propertyNames()) {
      byte[] sent = hex(cases.get(name).get("sent_hex"));
      if (unreadable.contains(name)) {
        assertThatThrownBy(() -> WireCodec.decodeRequest(sent))
            .as(name)
            .isInstanceOf(MalformedMessageException.class)
            .hasMessageStartingWith("offset=");
      } else {
        assertThat(WireCodec.decodeRequest(sent))
            .as(name)
            .isEqualTo(Recorded.pull(cases.get(name).get("sent")));
      }
    }
  }

  private static byte[] hex(JsonNode text) {
    return HexFormat.of().parseHex(text.stringValue());
  }
}
