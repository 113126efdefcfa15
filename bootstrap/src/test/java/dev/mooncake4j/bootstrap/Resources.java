package dev.mooncake4j.bootstrap;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import tools.jackson.databind.JsonNode;

/** Recorded answers of vLLM's server, and of FastAPI with the same model. */
final class Resources {
  private Resources() {}

  static JsonNode capture(String name) {
    String path = "/wire-captures/" + name;
    try (InputStream in = Resources.class.getResourceAsStream(path)) {
      if (in == null) {
        throw new IllegalStateException("no resource " + path);
      }
      return Json.MAPPER.readTree(in.readAllBytes());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
