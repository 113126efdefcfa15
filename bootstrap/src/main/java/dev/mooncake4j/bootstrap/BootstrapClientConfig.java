package dev.mooncake4j.bootstrap;

import dev.mooncake4j.connector.SharedSecret;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * How a bootstrap client asks.
 *
 * @param requestTimeout for each request, from connecting to the last byte of the answer; 1 ms to a
 *     day. vLLM's name for it is {@code VLLM_MOONCAKE_CONNECTOR_TIMEOUT}
 * @param allowedHosts which hosts {@link BootstrapClient#query} may ask; called with the host of
 *     the address in lower case, an IPv6 literal without brackets, before anything is looked up
 * @param delayer runs time-outs and pauses, or {@code null} for a thread of the client's own
 * @param nanoTime monotonic nanoseconds, for the elapsed time in messages
 * @param secret what is sent with each request, to any server that is asked, or {@code null} for
 *     nothing
 */
public record BootstrapClientConfig(
    Duration requestTimeout,
    Predicate<String> allowedHosts,
    @Nullable Delayer delayer,
    LongSupplier nanoTime,
    @Nullable SharedSecret secret) {

  /**
   * Checks the range.
   *
   * @throws IllegalArgumentException if the time-out is outside its range
   */
  public BootstrapClientConfig {
    List<String> problems = new ArrayList<>();
    BootstrapServerConfig.check("request_timeout", requestTimeout, Duration.ofDays(1), problems);
    if (!problems.isEmpty()) {
      throw new IllegalArgumentException(String.join("; ", problems));
    }
  }

  /** This time-out for each request; any host may be asked. */
  public static BootstrapClientConfig withTimeout(Duration requestTimeout) {
    return new BootstrapClientConfig(requestTimeout, host -> true, null, System::nanoTime, null);
  }

  /** This with another {@link #allowedHosts()}. */
  public BootstrapClientConfig withAllowedHosts(Predicate<String> hosts) {
    return new BootstrapClientConfig(requestTimeout, hosts, delayer, nanoTime, secret);
  }

  /** This with another {@link #delayer()}. */
  public BootstrapClientConfig withDelayer(Delayer timer) {
    return new BootstrapClientConfig(requestTimeout, allowedHosts, timer, nanoTime, secret);
  }

  /** This with another {@link #nanoTime()}. */
  public BootstrapClientConfig withNanoTime(LongSupplier clock) {
    return new BootstrapClientConfig(requestTimeout, allowedHosts, delayer, clock, secret);
  }

  /** This with another {@link #secret()}. */
  public BootstrapClientConfig withSecret(@Nullable SharedSecret sharedSecret) {
    return new BootstrapClientConfig(requestTimeout, allowedHosts, delayer, nanoTime, sharedSecret);
  }
}
