package dev.mooncake4j.core.report;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FailureStage;
import dev.mooncake4j.connector.spi.TransferListener;
import dev.mooncake4j.core.config.CapturedLog;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class CompositeTransferListenerTest {
  private static final Failure FAILURE =
      new Failure("r", "t", FailureStage.TRANSFER, "because", null, BlockIds.of(1), true);

  @Test
  void everyEventReachesEveryListenerInOrder() {
    List<String> events = new ArrayList<>();
    TransferListener all =
        CompositeTransferListener.of(
            new Recorder("a", events), TransferListener.NONE, new Recorder("b", events));

    tellEverything(all);

    assertThat(events)
        .containsExactly(
            "a opened e",
            "b opened e",
            "a completed 1 2 3",
            "b completed 1 2 3",
            "a failed 4 why",
            "b failed 4 why",
            "a waited 5",
            "b waited 5",
            "a renewed 6",
            "b renewed 6",
            "a received 7 8",
            "b received 7 8",
            "a receive t",
            "b receive t",
            "a expired t",
            "b expired t",
            "a closed e",
            "b closed e");
  }

  @Test
  void aListenerThatThrowsIsLoggedOnceAndHarmsNoOther() {
    List<String> events = new ArrayList<>();
    Recorder broken =
        new Recorder("broken", events) {
          @Override
          void add(String event) {
            throw new NoClassDefFoundError("gone");
          }
        };
    try (CapturedLog log = new CapturedLog()) {
      tellEverything(CompositeTransferListener.of(broken, new Recorder("b", events)));

      assertThat(events).hasSize(9).allMatch(event -> event.startsWith("b "));
      assertThat(log.lines("WARN")).singleElement().asString().contains("logged once");
    }
  }

  @Test
  void troubleOfTheVirtualMachineIsNotHidden() {
    TransferListener dying =
        new TransferListener() {
          @Override
          public void requestExpired(String transferId) {
            throw new OutOfMemoryError("test");
          }
        };

    assertThatThrownBy(() -> CompositeTransferListener.of(dying).requestExpired("t"))
        .isInstanceOf(OutOfMemoryError.class);
  }

  private static void tellEverything(TransferListener listener) {
    listener.workerOpened("e");
    listener.transferCompleted(1, 2, 3);
    listener.transferFailed(4, "why");
    listener.prefillWaited(5);
    listener.leasesRenewed(6);
    listener.receiveCompleted(7, 8);
    listener.receiveFailed(FAILURE);
    listener.requestExpired("t");
    listener.workerClosed("e");
  }

  @Test
  void noEventOfTheInterfaceIsForgotten() {
    // Each event that the interface has is overridden; a new one that is not would go nowhere.
    assertThat(CompositeTransferListener.class.getDeclaredMethods())
        .extracting(java.lang.reflect.Method::getName)
        .contains(
            java.util.Arrays.stream(TransferListener.class.getDeclaredMethods())
                .filter(java.lang.reflect.Method::isDefault)
                .map(java.lang.reflect.Method::getName)
                .toArray(String[]::new));
  }

  private static class Recorder implements TransferListener {
    private final String name;
    private final List<String> events;

    Recorder(String name, List<String> events) {
      this.name = name;
      this.events = events;
    }

    void add(String event) {
      events.add(name + " " + event);
    }

    @Override
    public void workerOpened(String engineId) {
      add("opened " + engineId);
    }

    @Override
    public void workerClosed(String engineId) {
      add("closed " + engineId);
    }

    @Override
    public void transferCompleted(long durationNanos, long bytes, int descriptors) {
      add("completed " + durationNanos + " " + bytes + " " + descriptors);
    }

    @Override
    public void transferFailed(int requests, String reason) {
      add("failed " + requests + " " + reason);
    }

    @Override
    public void prefillWaited(long nanos) {
      add("waited " + nanos);
    }

    @Override
    public void leasesRenewed(int count) {
      add("renewed " + count);
    }

    @Override
    public void receiveCompleted(long durationNanos, int blocks) {
      add("received " + durationNanos + " " + blocks);
    }

    @Override
    public void receiveFailed(Failure failure) {
      add("receive " + failure.transferId());
    }

    @Override
    public void requestExpired(String transferId) {
      add("expired " + transferId);
    }
  }
}
