package dev.mooncake4j.core.report;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.spi.TransferListener;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Several observers as one that never throws: what one of them throws is logged, the first time,
 * and the others are still called.
 *
 * <p>Called in the order given, on the caller's thread. As thread-safe as the observers are.
 */
public final class CompositeTransferListener implements TransferListener {
  private static final Logger log = LoggerFactory.getLogger(CompositeTransferListener.class);

  private final List<Guarded> listeners;

  private CompositeTransferListener(List<Guarded> listeners) {
    this.listeners = List.copyOf(listeners);
  }

  /** All of the given observers; those that observe nothing are left out. */
  public static CompositeTransferListener of(TransferListener... listeners) {
    List<Guarded> guarded = new ArrayList<>();
    for (TransferListener listener : listeners) {
      if (!listener.equals(TransferListener.NONE)) {
        guarded.add(new Guarded(listener, new AtomicBoolean()));
      }
    }
    return new CompositeTransferListener(guarded);
  }

  @Override
  public void workerOpened(String engineId) {
    tell(listener -> listener.workerOpened(engineId));
  }

  @Override
  public void workerClosed(String engineId) {
    tell(listener -> listener.workerClosed(engineId));
  }

  @Override
  public void transferCompleted(long durationNanos, long bytes, int descriptors) {
    tell(listener -> listener.transferCompleted(durationNanos, bytes, descriptors));
  }

  @Override
  public void transferFailed(int requests, String reason) {
    tell(listener -> listener.transferFailed(requests, reason));
  }

  @Override
  public void prefillWaited(long nanos) {
    tell(listener -> listener.prefillWaited(nanos));
  }

  @Override
  public void leasesRenewed(int count) {
    tell(listener -> listener.leasesRenewed(count));
  }

  @Override
  public void receiveCompleted(long durationNanos, int blocks) {
    tell(listener -> listener.receiveCompleted(durationNanos, blocks));
  }

  @Override
  public void receiveFailed(Failure failure) {
    tell(listener -> listener.receiveFailed(failure));
  }

  @Override
  public void requestExpired(String transferId) {
    tell(listener -> listener.requestExpired(transferId));
  }

  // Errors too: a class that an observer cannot load must not end the loop that tells it. Only
  // what says that the JVM itself is in trouble goes on.
  private void tell(Consumer<TransferListener> event) {
    for (Guarded guarded : listeners) {
      try {
        event.accept(guarded.listener);
      } catch (VirtualMachineError e) {
        throw e;
      } catch (Throwable e) {
        if (guarded.failed.compareAndSet(false, true)) {
          log.warn(
              "transfer listener class={} failed; logged once, transfers go on",
              guarded.listener.getClass().getName(),
              e);
        }
      }
    }
  }

  private record Guarded(TransferListener listener, AtomicBoolean failed) {}
}
