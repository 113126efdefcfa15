package dev.mooncake4j.bootstrap;

import java.nio.charset.StandardCharsets;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** The JSON reader and writer that both ends share, and its limits. */
final class Json {

  /** The longest answer read, and the longest {@code /query} answer given. */
  static final int MAX_ANSWER_BYTES = 1 << 20;

  /**
   * {@code /query} nests four levels and {@code /register} one; unknown fields may nest some more.
   * A number of 100 digits is no rank, but is still echoed in the error that says so.
   */
  private static final StreamReadConstraints LIMITS =
      StreamReadConstraints.builder()
          .maxNestingDepth(32)
          .maxNumberLength(100)
          .maxStringLength(MAX_ANSWER_BYTES)
          .maxNameLength(1024)
          .maxDocumentLength(MAX_ANSWER_BYTES)
          .build();

  /** Of names given twice the last one counts, as in Python. */
  static final JsonMapper MAPPER = JsonMapper.builder(factory()).build();

  /** Refuses a name given twice. */
  static final JsonMapper STRICT_MAPPER =
      JsonMapper.builder(factory()).enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build();

  private Json() {}

  private static JsonFactory factory() {
    return JsonFactory.builder().streamReadConstraints(LIMITS).build();
  }

  /** In UTF-8, half a surrogate pair as a question mark: an error's echo must always be sent. */
  static byte[] bytes(JsonNode node) {
    return MAPPER.writeValueAsString(node).getBytes(StandardCharsets.UTF_8);
  }
}
