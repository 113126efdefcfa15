package dev.mooncake4j.core.wire;

import static org.assertj.core.api.Assertions.assertThat;

import com.code_intelligence.jazzer.junit.DictionaryFile;
import com.code_intelligence.jazzer.junit.FuzzTest;
import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;

/**
 * Both readers of the wire: bytes are a message that can be written and read again, or a
 * MalformedMessageException, at a cost in proportion to the bytes.
 */
class WireFuzzTest {
  /** An exception, and what the fuzzer's own hooks take. */
  private static final int COST_OF_ANY = 1 << 20;

  /** A string of one byte makes a decoder, two buffers and a String; nothing costs more. */
  private static final int COST_OF_A_BYTE = 512;

  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  private interface Reader {
    Object read(byte[] message) throws MalformedMessageException;
  }

  @FuzzTest
  @DictionaryFile(resourcePath = "/dev/mooncake4j/core/wire/fields.dict")
  void request(byte[] message) throws MalformedMessageException {
    check(message, WireCodec::decodeRequest);
  }

  @FuzzTest
  @DictionaryFile(resourcePath = "/dev/mooncake4j/core/wire/fields.dict")
  void response(byte[] message) throws MalformedMessageException {
    check(message, WireCodec::decodeResponse);
  }

  private static void check(byte[] message, Reader reader) throws MalformedMessageException {
    byte[] given = message.clone();
    long most = COST_OF_ANY + (long) COST_OF_A_BYTE * message.length;
    long cost = Long.MAX_VALUE;
    Object read = null;
    // What is done for the first time loads classes.
    for (int i = 0; i < 3 && cost > most; i++) {
      long before = THREADS.getCurrentThreadAllocatedBytes();
      try {
        read = reader.read(message);
      } catch (MalformedMessageException e) {
        assertThat(e.offset()).isBetween(0, message.length);
        assertThat(e.getMessage()).startsWith("offset=").contains(": ");
      }
      cost = THREADS.getCurrentThreadAllocatedBytes() - before;
    }
    assertThat(cost).isLessThanOrEqualTo(most);
    assertThat(message).isEqualTo(given);
    if (read != null) {
      byte[] written = Recorded.encode(read);
      Object again = reader.read(written);
      assertThat(again).isEqualTo(read);
      assertThat(Recorded.encode(again)).isEqualTo(written);
    }
  }
}
