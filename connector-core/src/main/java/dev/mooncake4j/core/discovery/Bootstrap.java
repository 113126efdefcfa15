package dev.mooncake4j.core.discovery;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletionStage;

/** What the connector needs of a bootstrap client. Thread-safe. */
public interface Bootstrap extends AutoCloseable {

  /**
   * The engines that a bootstrap server knows. Returns at once; fails with a {@link
   * dev.mooncake4j.connector.BootstrapUnavailableException} once its attempts are used up.
   */
  CompletionStage<List<EngineAddresses>> query(String bootstrapAddress);

  /**
   * The same, asked once and with little patience, to see whether a server that answered before
   * still does. Returns at once; fails if no answer has come in time.
   */
  CompletionStage<List<EngineAddresses>> look(String bootstrapAddress, Duration patience);

  /**
   * Registers one prefiller rank; blocks, with retries.
   *
   * @throws dev.mooncake4j.connector.BootstrapUnavailableException if the server cannot be reached
   *     or refuses
   */
  void register(String bootstrapAddress, RankRegistration registration);

  /**
   * As {@link #register}, and returns at once; no thread waits. Fails with what {@link #register}
   * throws.
   */
  CompletionStage<RankRegistration> registerAsync(
      String bootstrapAddress, RankRegistration registration);

  /**
   * As {@link #query}, of the server at which this process registers: its address is the
   * configuration's, and no list of allowed hosts is asked.
   */
  CompletionStage<List<EngineAddresses>> queryOwn(String bootstrapAddress);

  /** Takes a registration back, as far as the server knows how; brief, never throws. */
  void deregister(String bootstrapAddress, RankRegistration registration);

  @Override
  void close();
}
