package dev.mooncake4j.connector;

import dev.mooncake4j.connector.spi.NanoClock;
import dev.mooncake4j.connector.spi.TransferEngineProvider;
import dev.mooncake4j.connector.spi.TransferListener;
import org.jspecify.annotations.Nullable;

/**
 * What a server plugs into the connector beside its configuration.
 *
 * @param engineThreadStart runs on each engine thread when it starts, before any transfer; to bind
 *     a CUDA device to the thread, say
 * @param resultsReady called when {@link KvWorker#poll()} has something new, on a thread of the
 *     connector's and outside its locks; must return at once
 * @param listener observer of transfers, for metrics
 * @param clock the monotonic clock behind every deadline
 * @param engineProvider the transfer engine to use, or {@code null} for the one that {@link
 *     java.util.ServiceLoader} finds
 */
public record ConnectorHooks(
    Runnable engineThreadStart,
    Runnable resultsReady,
    TransferListener listener,
    NanoClock clock,
    @Nullable TransferEngineProvider engineProvider) {

  /** No hooks: nothing on thread start, no observer, the system's clock, the engine found. */
  public static ConnectorHooks none() {
    return new ConnectorHooks(
        ConnectorHooks::nothing,
        ConnectorHooks::nothing,
        TransferListener.NONE,
        NanoClock.SYSTEM,
        null);
  }

  /** These hooks with another {@link #engineThreadStart()}. */
  public ConnectorHooks withEngineThreadStart(Runnable hook) {
    return new ConnectorHooks(hook, resultsReady, listener, clock, engineProvider);
  }

  /** These hooks with another {@link #resultsReady()}. */
  public ConnectorHooks withResultsReady(Runnable hook) {
    return new ConnectorHooks(engineThreadStart, hook, listener, clock, engineProvider);
  }

  /** These hooks with another {@link #listener()}. */
  public ConnectorHooks withListener(TransferListener observer) {
    return new ConnectorHooks(engineThreadStart, resultsReady, observer, clock, engineProvider);
  }

  /** These hooks with another {@link #clock()}. */
  public ConnectorHooks withClock(NanoClock nanoClock) {
    return new ConnectorHooks(engineThreadStart, resultsReady, listener, nanoClock, engineProvider);
  }

  /** These hooks with another {@link #engineProvider()}. */
  public ConnectorHooks withEngineProvider(TransferEngineProvider provider) {
    return new ConnectorHooks(engineThreadStart, resultsReady, listener, clock, provider);
  }

  private static void nothing() {}
}
