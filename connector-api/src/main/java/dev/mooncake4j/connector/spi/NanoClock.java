package dev.mooncake4j.connector.spi;

/** A monotonic clock; tests drive their own. */
@FunctionalInterface
public interface NanoClock {
  /** {@link System#nanoTime()}. */
  NanoClock SYSTEM = System::nanoTime;

  /** Nanoseconds since an arbitrary moment; compare by subtraction. Thread-safe. */
  long nanoTime();
}
