package dev.mooncake4j.core.wire;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Our bytes are those of vLLM's encoder, and its bytes give our fields. */
class SideChannelAnswersTest {

  @TestFactory
  Stream<DynamicTest> encodesToTheSameBytes() {
    return answers().stream()
        .map(
            answer ->
                DynamicTest.dynamicTest(
                    answer.name(),
                    () ->
                        assertThat(HexFormat.of().formatHex(Recorded.encode(answer.message())))
                            .isEqualTo(answer.hex())));
  }

  @TestFactory
  Stream<DynamicTest> decodesToTheSameFields() {
    return answers().stream()
        .map(
            answer ->
                DynamicTest.dynamicTest(
                    answer.name(),
                    () -> assertThat(answer.decode(answer.bytes())).isEqualTo(answer.message())));
  }

  private static List<Recorded> answers() {
    List<Recorded> answers = Recorded.answers();
    if (answers.isEmpty()) {
      throw new IllegalStateException("side_channel_messages.json has no cases");
    }
    return answers;
  }
}
