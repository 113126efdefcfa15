package dev.mooncake4j.core.channel;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A requester that sends without end takes a small part of each turn, and loses nothing. */
@Timeout(value = 60, unit = TimeUnit.SECONDS)
class ZmtpFloodTest {
  private static final int MESSAGES = 2000;

  /** The first read is of a full buffer; it is known by then. */
  private static final int MOST_LATER = 4 * ZmtpConnection.MESSAGES_PER_TURN;

  private static byte[] flood() {
    ByteBuffer frames = ByteBuffer.allocate(MESSAGES * 102);
    for (int i = 0; i < MESSAGES; i++) {
      frames.put((byte) 0).put((byte) 100);
      frames.put(String.format("f%099d", i).getBytes(StandardCharsets.US_ASCII));
    }
    return frames.array();
  }

  @Test
  void oneThatFloodsIsReadAFewAtATimeAndOthersInBetween() throws Exception {
    try (ZmtpSideChannel p = new ZmtpSideChannel()) {
      int port = p.bind("127.0.0.1");
      Recorder atP = new Recorder();
      Runnable pump = () -> p.poll(1_000_000, atP);
      CompletableFuture<RawZmtp> flooder =
          CompletableFuture.supplyAsync(
              () -> {
                try {
                  RawZmtp peer = RawZmtp.dealer(port, Thread::onSpinWait);
                  peer.send(flood());
                  return peer;
                } catch (IOException e) {
                  throw new UncheckedIOException(e);
                }
              });
      try (RawZmtp good = RawZmtp.dealer(port, pump)) {
        List<Integer> turns = new ArrayList<>();
        boolean asked = false;
        while (atP.heard.size() < MESSAGES + 1) {
          int before = atP.heard.size();
          p.poll(1_000_000, atP);
          turns.add(atP.heard.size() - before);
          if (!asked && before > 0) {
            asked = true;
            good.send("0001" + "61");
          }
        }
        flooder.get(20, TimeUnit.SECONDS).close();
        assertThat(turns.stream().filter(n -> n > MOST_LATER).count())
            .as("turns that brought many: %s", turns)
            .isLessThanOrEqualTo(1);
        assertThat(atP.heard.indexOf("request a"))
            .as("the other's place among all")
            .isLessThan(MESSAGES / 2 + MOST_LATER);
        List<String> flooded = new ArrayList<>(atP.heard);
        flooded.remove("request a");
        for (int i = 0; i < MESSAGES; i++) {
          assertThat(flooded.get(i)).isEqualTo(String.format("request f%099d", i));
        }
      }
    }
  }
}
