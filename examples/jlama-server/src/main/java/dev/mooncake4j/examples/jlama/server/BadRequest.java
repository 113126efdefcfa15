package dev.mooncake4j.examples.jlama.server;

/** A request that is not served, with the status and the words for its client. */
final class BadRequest extends Exception {
  private static final long serialVersionUID = 1L;

  private final int status;

  BadRequest(String message) {
    this(400, message);
  }

  BadRequest(int status, String message) {
    super(message);
    this.status = status;
  }

  int status() {
    return status;
  }
}
