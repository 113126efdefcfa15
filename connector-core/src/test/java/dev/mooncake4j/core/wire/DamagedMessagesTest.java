package dev.mooncake4j.core.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.assertj.core.api.Assertions.fail;

import com.sun.management.ThreadMXBean;
import java.io.ByteArrayOutputStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** Whatever comes in, it is a message or a MalformedMessageException, at a bounded cost. */
class DamagedMessagesTest {
  private static final int MUTATIONS = 20_000;

  @Test
  void aMessageCutShortAtAnyByteIsMalformed() {
    int cuts = 0;
    for (Recorded recorded : all()) {
      byte[] bytes = recorded.bytes();
      for (int length = 0; length < bytes.length; length++) {
        byte[] cut = Arrays.copyOf(bytes, length);
        try {
          Object message = recorded.decode(cut);
          fail("%s cut at %d was read as %s", recorded, length, message);
        } catch (MalformedMessageException e) {
          if (e.offset() < 0 || e.offset() > length) {
            fail("%s cut at %d: offset=%d", recorded, length, e.offset());
          }
          cuts++;
        }
      }
    }
    assertThat(cuts).isGreaterThan(30_000);
  }

  @Test
  void aByteAfterTheMessageIsMalformed() {
    for (Recorded recorded : all()) {
      byte[] bytes = recorded.bytes();
      byte[] longer = Arrays.copyOf(bytes, bytes.length + 1);
      MalformedMessageException e =
          catchThrowableOfType(MalformedMessageException.class, () -> recorded.decode(longer));
      assertThat(e).as(recorded.name()).hasMessageContaining("bytes follow the message");
    }
  }

  @Test
  void aMutatedMessageIsReadOrMalformedAndWhatIsReadCanBeWritten() {
    SplittableRandom random = seeded("mutations");
    // The long ones cost time and show nothing that the short ones do not.
    List<Recorded> originals = all().stream().filter(r -> r.hex().length() < 2400).toList();
    int read = 0;
    for (int i = 0; i < MUTATIONS; i++) {
      Recorded recorded = originals.get(random.nextInt(originals.size()));
      byte[] mutated = mutate(random, recorded.bytes());
      try {
        Object message = recorded.decode(mutated);
        assertThat(recorded.decode(Recorded.encode(message))).isEqualTo(message);
        read++;
      } catch (MalformedMessageException expected) {
        assertThat(expected.offset()).isBetween(0, mutated.length);
      } catch (RuntimeException | Error e) {
        throw new AssertionError("i=" + i + " message=" + HexFormat.of().formatHex(mutated), e);
      }
    }
    System.out.println("mutations=" + MUTATIONS + " read=" + read);
    assertThat(read).isBetween(MUTATIONS / 100, MUTATIONS - MUTATIONS / 100);
  }

  @Test
  void noiseIsMalformed() {
    SplittableRandom random = seeded("noise");
    for (int i = 0; i < MUTATIONS; i++) {
      byte[] noise = new byte[random.nextInt(64)];
      random.nextBytes(noise);
      if (noise.length > 0 && random.nextBoolean()) {
        noise[0] = (byte) (0x80 | random.nextInt(16));
      }
      assertMalformed(noise, "");
    }
  }

  @Test
  void aDeclaredLengthBeyondTheMessageCostsNothing() throws Exception {
    List<byte[]> liars = new ArrayList<>();
    for (String count : List.of("7fffffff", "80000000", "ffffffff", "00ffffff")) {
      // A map, and an array or a string where each field wants one, of that many elements.
      liars.add(hex("df" + count + "a673746174757300"));
      for (String field :
          List.of(
              "remote_hostname",
              "req_blocks",
              "kv_caches_base_addr",
              "block_lens",
              "registered_layer_names",
              "registered_layer_indices",
              "registered_shared_group_ids",
              "renew_transfer_ids",
              "status",
              "ok_reqs",
              "err_msg",
              "of an unknown kind")) {
        for (String tag : List.of("dd", "db", "df", "c6", "c9")) {
          liars.add(oneField(field, hex(tag + count + "0000")));
        }
      }
      liars.add(oneField("req_blocks", hex("81a172" + "92a174" + "dd" + count)));
      liars.add(oneField("req_blocks", hex("81a172" + "92a174" + "91dd" + count)));
    }
    for (byte[] liar : liars) {
      assertMalformed(liar, "");
    }
    long before = allocated();
    for (byte[] liar : liars) {
      try {
        WireCodec.decodeRequest(liar);
        fail("read");
      } catch (MalformedMessageException expected) {
        assertThat(expected).hasMessageContaining("offset=");
      }
    }
    long each = (allocated() - before) / liars.size();
    System.out.println("lying messages=" + liars.size() + " allocated_bytes_each=" + each);
    assertThat(each).isLessThan(64 << 10);
  }

  /** As many elements as bytes are declared: the least that can be told only by reading them. */
  @Test
  void aDeclaredLengthWithinTheMessageCostsInProportionToWhatIsThere() throws Exception {
    int n = 4 << 20;
    for (String field :
        List.of("kv_caches_base_addr", "registered_layer_names", "registered_shared_group_ids")) {
      byte[] elements = new byte[5 + n];
      elements[0] = (byte) 0xdd;
      elements[2] = (byte) (n >> 16);
      Arrays.fill(elements, 5, elements.length, (byte) 0xc0);
      byte[] message = oneField(field, elements);
      long before = allocated();
      assertThatThrownBy(() -> WireCodec.decodeRequest(message))
          .isInstanceOf(MalformedMessageException.class)
          .hasMessageContaining("got tag=0xc0");
      long cost = allocated() - before;
      System.out.println(field + " message_bytes=" + message.length + " allocated_bytes=" + cost);
      assertThat(cost).as(field).isLessThan(message.length);
    }
  }

  @Test
  void aNestingBombIsMalformed() {
    for (int tag : new int[] {0x91, 0x81}) {
      byte[] bomb = new byte[1 << 20];
      Arrays.fill(bomb, (byte) tag);
      assertMalformed(oneField("of an unknown kind", bomb), "nested deeper than 32");
      assertMalformed(oneField("kv_caches_base_addr", bomb), "");
      assertMalformed(bomb, "");
    }
  }

  @Test
  void whatNobodyKnowsIsPassedOverUpToADepth() throws MalformedMessageException {
    for (int depth = 1; depth < 40; depth++) {
      byte[] nested = new byte[depth];
      Arrays.fill(nested, (byte) 0x91);
      nested[depth - 1] = (byte) 0xc0;
      byte[] message = joined(hex("82a673746174757300a17a"), nested);
      if (depth <= 33) {
        assertThat(WireCodec.decodeResponse(message).status())
            .isEqualTo(PullResponse.Status.FINISH);
      } else {
        assertMalformed(message, "nested deeper than 32");
      }
    }
  }

  @Test
  void everyFormOfAnUnknownValueIsPassedOver() throws MalformedMessageException {
    for (String value :
        List.of(
            ("00 7f e0 ff c0 c2 c3 cc01 cd0102 ce01020304 cf0102030405060708 d001 d10102 d201020304"
                    + " d30102030405060708 ca00000000 cb0000000000000000 a0 a161 bf"
                    + "61".repeat(31)
                    + " d900 d90161 da000161 db0000000161 c400 c40161 c5000161 c60000000161 c70001"
                    + " c7010161 c800010161 c9000000010161 d40161 d5016161 d60161616161"
                    + (" d701" + "61".repeat(8) + " d801" + "61".repeat(16))
                    + " 90 9101 dc000101 dd0000000101 80 810102 de00010102 df000000010102")
                .split(" "))) {
      byte[] message = joined(joined(hex("82a17a"), hex(value)), hex("a673746174757303"));
      assertThat(WireCodec.decodeResponse(message).status())
          .as(value)
          .isEqualTo(PullResponse.Status.LAYOUT_MISS);
    }
    assertMalformed(hex("82a17ac1a673746174757300"), "got tag=0xc1");
  }

  @Test
  void aMessageOverTheLimitIsRefusedUnread() {
    assertMalformed(new byte[WireCodec.MAX_MESSAGE_BYTES + 1], "is more than");
  }

  private static void assertMalformed(byte[] message, String text) {
    for (boolean response : new boolean[] {true, false}) {
      try {
        if (response) {
          WireCodec.decodeResponse(message);
        } else {
          WireCodec.decodeRequest(message);
        }
        fail("response=%s read: %s", response, HexFormat.of().formatHex(message));
      } catch (MalformedMessageException e) {
        if (e.offset() < 0
            || e.offset() > message.length
            || !String.valueOf(e.getMessage()).contains(text)) {
          throw new AssertionError("wanted text=" + text, e);
        }
      }
    }
  }

  private static byte[] oneField(String name, byte[] value) {
    byte[] key = name.getBytes(StandardCharsets.UTF_8);
    return joined(joined(new byte[] {(byte) 0x81, (byte) 0xd9, (byte) key.length}, key), value);
  }

  private static byte[] joined(byte[] first, byte[] second) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    out.writeBytes(first);
    out.writeBytes(second);
    return out.toByteArray();
  }

  private static byte[] hex(String text) {
    return HexFormat.of().parseHex(text);
  }

  private static List<Recorded> all() {
    List<Recorded> all = new ArrayList<>(Recorded.answers());
    all.addAll(Recorded.captures());
    return all;
  }

  private static long allocated() {
    return ((ThreadMXBean) ManagementFactory.getThreadMXBean()).getCurrentThreadAllocatedBytes();
  }

  private static SplittableRandom seeded(String what) {
    long seed = Long.getLong("mooncake4j.seed", System.nanoTime());
    System.out.println(what + " seed=" + seed + ", repeat with -Dmooncake4j.seed=" + seed);
    return new SplittableRandom(seed);
  }

  private static byte[] mutate(SplittableRandom random, byte[] original) {
    byte[] bytes = original.clone();
    int changes = 1 + random.nextInt(3);
    for (int c = 0; c < changes; c++) {
      int at = random.nextInt(bytes.length);
      switch (random.nextInt(6)) {
        case 0 -> bytes[at] = (byte) random.nextInt(256);
        case 1 -> bytes[at] ^= (byte) (1 << random.nextInt(8));
        case 2 -> bytes[at] = (byte) (0xc0 + random.nextInt(0x20));
        case 3 -> {
          int from = random.nextInt(bytes.length);
          int length = Math.min(random.nextInt(1, 12), bytes.length - Math.max(at, from));
          System.arraycopy(bytes, from, bytes, at, length);
        }
        case 4 ->
            bytes =
                joined(
                    joined(Arrays.copyOf(bytes, at), new byte[] {(byte) random.nextInt(256)}),
                    Arrays.copyOfRange(bytes, at, bytes.length));
        default ->
            bytes =
                joined(
                    Arrays.copyOf(bytes, Math.max(1, at)),
                    Arrays.copyOfRange(bytes, at + 1, bytes.length));
      }
    }
    return bytes;
  }
}
