package dev.mooncake4j.bootstrap;

import dev.mooncake4j.connector.SharedSecret;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/** The shared secret as an {@code Authorization} header: {@code Bearer} and the secret. */
final class Bearer {
  private static final String SCHEME = "Bearer ";

  private Bearer() {}

  /** The header's value. */
  static String header(SharedSecret secret) {
    return SCHEME + new String(secret.reveal(), StandardCharsets.US_ASCII);
  }

  /** Whether a header brings the secret; takes as long whichever of its characters are wrong. */
  static boolean matches(SharedSecret secret, @Nullable String header) {
    if (header == null || !header.regionMatches(true, 0, SCHEME, 0, SCHEME.length())) {
      return false;
    }
    return secret.matches(
        header.substring(SCHEME.length()).strip().getBytes(StandardCharsets.ISO_8859_1));
  }
}
