package dev.mooncake4j.connector.spi;

import dev.mooncake4j.connector.TransferEngineException;
import java.util.List;

/**
 * Moves bytes from registered memory here to registered memory of a peer.
 *
 * <p>Thread-safe. {@link #write} blocks and is to be called on platform threads of the caller's;
 * the others return soon. The contract is published as a test class in connector-testkit; an engine
 * of yours can be held against it.
 */
public interface TransferEngine extends AutoCloseable {

  /** The address that peers reach this engine at. */
  String host();

  /** The port that peers reach this engine at; a peer is named {@code host:port}. */
  int port();

  /** The transport in use, which may differ from the one asked for: {@code tcp}, {@code rdma}. */
  String transport();

  /**
   * Whether a completed write proves that its bytes lie in the peer's memory. Without it completion
   * says only that they were sent.
   */
  boolean completionProvesArrival();

  /**
   * Registers memory, all of it or none. The memory must stay valid until it is unregistered.
   *
   * @throws TransferEngineException if a range is refused, overlaps another of the call or one
   *     registered before; what had been registered by this call is taken back
   * @throws IllegalStateException if the engine is closed
   */
  void register(List<MemoryRange> ranges);

  /**
   * Gives registrations back, in any order; the ranges must be those that were registered.
   *
   * @throws TransferEngineException if a range is not registered, or the engine refuses; the others
   *     are given back all the same
   */
  void unregister(List<MemoryRange> ranges);

  /**
   * Writes every descriptor to the peer, and returns when all are done, one has failed and the rest
   * is quiet, or the time has passed.
   *
   * <p>Any number of descriptors: they are sent in parts within the engine's limits, which all
   * threads share. The list is not read after the call has returned. A list with no descriptors
   * completes at once.
   *
   * @param peer the peer's {@code host:port}; an IPv6 host in brackets
   * @param descriptors what to copy; sources must be registered here
   * @param timeoutNanos the time allowed, more than 0
   * @return how it ended; never throws for a peer's failure
   * @throws IllegalStateException if the engine is closed
   */
  WriteResult write(String peer, DescriptorList descriptors, long timeoutNanos);

  /** Forgets what is known of a peer, so that one that came back at the same address is found. */
  void forgetPeer(String peer);

  /** What the engine holds now. */
  EngineStats stats();

  /**
   * Stops: new work is refused, what is under way is awaited for a bounded time, registrations are
   * given back. If some batch never ends, its memory is leaked on purpose and that is logged.
   * Idempotent.
   */
  @Override
  void close();
}
