package dev.mooncake4j.connector;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The secret that the processes of one cluster share, by which they let each other in.
 *
 * <p>{@value #MIN_LENGTH} to {@value #MAX_LENGTH} printable ASCII characters without spaces. It is
 * never shown: not by {@link #toString}, and not by what refuses a text that is none. Immutable and
 * thread-safe; nothing blocks but {@link #ofFile}.
 */
public final class SharedSecret {
  /** The fewest characters: too many to be tried out over a network. */
  public static final int MIN_LENGTH = 16;

  /** The most: each message that has it stays a short one. */
  public static final int MAX_LENGTH = 128;

  /** More than a secret and its line's end: what is longer is some other file. */
  private static final int MAX_FILE_BYTES = 1024;

  private final byte[] bytes;

  private SharedSecret(byte[] bytes) {
    this.bytes = bytes;
  }

  /**
   * The secret of this text.
   *
   * @throws IllegalArgumentException if it is too short, too long, or has other characters; the
   *     message does not show it
   */
  public static SharedSecret of(String text) {
    String problem = problem(text);
    if (problem != null) {
      throw new IllegalArgumentException("shared_secret " + problem);
    }
    return new SharedSecret(text.getBytes(StandardCharsets.US_ASCII));
  }

  /**
   * The secret in a file, which has nothing else but an end of line. Reads the file; blocks.
   *
   * @throws IllegalArgumentException if it cannot be read or holds none; the message has the file's
   *     name, not what is in it
   */
  public static SharedSecret ofFile(Path file) {
    String text;
    try (InputStream in = Files.newInputStream(file)) {
      // Whatever is no ASCII becomes a character that is refused.
      text = new String(in.readNBytes(MAX_FILE_BYTES), StandardCharsets.US_ASCII);
    } catch (IOException e) {
      throw new IllegalArgumentException(
          "shared_secret_file="
              + file
              + " cannot be read, cause="
              + e.getClass().getSimpleName()
              + ": give a file that this process may read",
          e);
    }
    String secret = text.endsWith("\n") ? text.substring(0, text.length() - 1) : text;
    secret = secret.endsWith("\r") ? secret.substring(0, secret.length() - 1) : secret;
    String problem = problem(secret);
    if (problem != null) {
      throw new IllegalArgumentException("shared_secret_file=" + file + " " + problem);
    }
    return new SharedSecret(secret.getBytes(StandardCharsets.US_ASCII));
  }

  /** As {@link #of}, of a value by this name; {@code null} with a problem. */
  static @Nullable SharedSecret read(String name, String text, List<String> problems) {
    String problem = problem(text);
    if (problem != null) {
      problems.add(name + " " + problem);
      return null;
    }
    return of(text);
  }

  /** As {@link #ofFile}, of a value by this name; {@code null} with a problem. */
  static @Nullable SharedSecret readFile(String name, String file, List<String> problems) {
    try {
      return ofFile(Path.of(file));
    } catch (InvalidPathException e) {
      problems.add(name + "=" + file + " is no file's name: give the file of the shared secret");
    } catch (IllegalArgumentException e) {
      problems.add(String.valueOf(e.getMessage()).replaceFirst("^shared_secret_file", name));
    }
    return null;
  }

  private static @Nullable String problem(String text) {
    int length = text.length();
    if (length < MIN_LENGTH || length > MAX_LENGTH) {
      return "has characters=" + length + ": give " + wanted();
    }
    if (!text.chars().allMatch(c -> c > ' ' && c <= '~')) {
      return "has a space, a control character or one that is not ASCII: give " + wanted();
    }
    return null;
  }

  private static String wanted() {
    return MIN_LENGTH
        + " to "
        + MAX_LENGTH
        + " printable ASCII characters without spaces, as 'openssl rand -hex 32' makes them";
  }

  /** Whether these bytes are the secret's; takes as long whichever of them are wrong. */
  public boolean matches(byte[] candidate) {
    return MessageDigest.isEqual(bytes, candidate);
  }

  /** The secret itself, to be sent and not to be kept: a copy. */
  public byte[] reveal() {
    return bytes.clone();
  }

  @Override
  public boolean equals(@Nullable Object other) {
    return other instanceof SharedSecret secret && matches(secret.bytes);
  }

  /** The same for all: a number made of the secret would tell something of it. */
  @Override
  public int hashCode() {
    return SharedSecret.class.hashCode();
  }

  /** Says that there is one, and nothing of it. */
  @Override
  public String toString() {
    return "(set, not shown)";
  }
}
