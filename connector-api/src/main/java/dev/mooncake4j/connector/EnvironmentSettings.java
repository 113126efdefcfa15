package dev.mooncake4j.connector;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The environment variables of vLLM's MooncakeConnector, with their defaults, and our own. */
record EnvironmentSettings(
    @Nullable String host,
    int bootstrapPort,
    Duration connectorTimeout,
    Duration abortRequestTimeout,
    @Nullable SharedSecret sharedSecret) {

  static EnvironmentSettings read(Map<String, String> env, List<String> problems) {
    String host = env.get("VLLM_HOST_IP");
    if (host != null && host.isBlank()) {
      host = null;
    }
    if (host != null) {
      HostAddresses.checkAdvertised("VLLM_HOST_IP", host, problems);
    }
    return new EnvironmentSettings(
        host,
        port(env, "VLLM_MOONCAKE_BOOTSTRAP_PORT", 8998, problems),
        seconds(env, "VLLM_MOONCAKE_CONNECTOR_TIMEOUT", 30, problems),
        seconds(env, "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT", 480, problems),
        secret(env, problems));
  }

  private static @Nullable SharedSecret secret(Map<String, String> env, List<String> problems) {
    String text = env.get("MOONCAKE4J_SHARED_SECRET");
    String file = env.get("MOONCAKE4J_SHARED_SECRET_FILE");
    boolean hasText = text != null && !text.isBlank();
    boolean hasFile = file != null && !file.isBlank();
    if (hasText && hasFile) {
      problems.add(
          "MOONCAKE4J_SHARED_SECRET and MOONCAKE4J_SHARED_SECRET_FILE are both set: set one");
      return null;
    }
    if (file != null && hasFile) {
      return SharedSecret.readFile("MOONCAKE4J_SHARED_SECRET_FILE", file, problems);
    }
    return text != null && hasText
        ? SharedSecret.read("MOONCAKE4J_SHARED_SECRET", text, problems)
        : null;
  }

  private static int port(
      Map<String, String> env, String name, int defaultValue, List<String> problems) {
    String text = env.get(name);
    if (text == null || text.isBlank()) {
      return defaultValue;
    }
    try {
      int port = Integer.parseInt(text.strip());
      if (port >= 0 && port <= 65535) {
        return port;
      }
    } catch (NumberFormatException e) {
      // Told below, with the text as it came.
    }
    problems.add(name + "=" + text + " is not a port: give 0 to 65535");
    return defaultValue;
  }

  private static Duration seconds(
      Map<String, String> env, String name, int defaultValue, List<String> problems) {
    String text = env.get(name);
    if (text == null || text.isBlank()) {
      return Duration.ofSeconds(defaultValue);
    }
    try {
      double value = Double.parseDouble(text.strip());
      long nanos = Math.round(value * 1e9);
      if (nanos > 0 && value <= 86_400) {
        return Duration.ofNanos(nanos);
      }
    } catch (NumberFormatException e) {
      // Told below, with the text as it came.
    }
    problems.add(
        name + "=" + text + " is not a number of seconds: give more than 0, at most 86400");
    return Duration.ofSeconds(defaultValue);
  }
}
