package dev.mooncake4j.engine.load;

import dev.mooncake4j.connector.EngineUnavailableException;
import dev.mooncake4j.engine.MooncakeNative;

/** Asks in a JVM of its own whether the engine is available, and tells. */
final class AvailabilityProbe {
  private AvailabilityProbe() {}

  /** With one argument: {@code once}, or {@code twice} to see that the answer is kept. */
  public static void main(String[] args) {
    EngineUnavailableException cause = MooncakeNative.unavailabilityCause();
    if (cause == null) {
      System.out.println("available=" + MooncakeNative.isAvailable());
      return;
    }
    boolean same = !args[0].equals("twice") || cause == MooncakeNative.unavailabilityCause();
    System.out.println(
        "available="
            + MooncakeNative.isAvailable()
            + " same="
            + same
            + " suppressed="
            + cause.getSuppressed().length);
    System.out.println(cause.getMessage());
  }
}
