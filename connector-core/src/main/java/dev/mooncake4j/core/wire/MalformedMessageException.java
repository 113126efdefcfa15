package dev.mooncake4j.core.wire;

/** A message that cannot be read; says where and why. */
public final class MalformedMessageException extends Exception {
  private static final long serialVersionUID = 1L;

  private final int offset;

  MalformedMessageException(int offset, String path, String problem) {
    super("offset=" + offset + (path.isEmpty() ? "" : " field=" + path) + ": " + problem);
    this.offset = offset;
  }

  /** The byte at which reading stopped. */
  public int offset() {
    return offset;
  }
}
