package dev.mooncake4j.engine.load;

import org.jspecify.annotations.Nullable;

/** One attempt at a library that failed, with what the linker or the library said. */
final class LibraryException extends Exception {
  private static final long serialVersionUID = 1L;

  private final boolean lasting;

  LibraryException(String message) {
    this(message, false, null);
  }

  /**
   * With all there is to say.
   *
   * @param lasting whether the library has been bound to all the same, so that no other can be
   */
  LibraryException(String message, boolean lasting, @Nullable Throwable cause) {
    super(message, cause);
    this.lasting = lasting;
  }

  boolean isLasting() {
    return lasting;
  }
}
