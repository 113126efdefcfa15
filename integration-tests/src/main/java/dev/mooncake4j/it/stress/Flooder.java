package dev.mooncake4j.it.stress;

import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.concurrent.atomic.AtomicLong;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * A decoder that is out of order: asks a prefiller for one transfer after another that nobody
 * knows, as fast as it can, and reads what it is answered. It speaks the side channel by itself,
 * since the connector does not do that.
 *
 * <p>Argument: the address of the prefiller's bootstrap server. It tells {@code flooding} when the
 * prefiller takes its pulls, and how many it has sent and heard of when its standard input ends.
 */
public final class Flooder {
  private static final String GREETING =
      "ff00000000000000017f" + "0301" + "4e554c4c" + "00".repeat(16) + "00" + "00".repeat(31);
  private static final String READY =
      "04290552454144590b536f636b65742d54797065000000064445414c4552084964656e7469747900000000";
  private static final int BUFFER = 1 << 16;
  private static final long LAYOUT_ID = 77;

  private final AtomicLong sent = new AtomicLong();
  private final AtomicLong heard = new AtomicLong();

  private Flooder() {}

  /** Floods until standard input ends. */
  public static void main(String[] args) throws IOException {
    URI prefiller = sideChannel(URI.create(args[0]));
    Flooder flooder = new Flooder();
    Thread.ofPlatform().daemon().name("flood").start(() -> flooder.flood(prefiller));
    int end = System.in.read();
    while (end >= 0) {
      end = System.in.read();
    }
    System.out.println("sent=" + flooder.sent + " heard=" + flooder.heard);
    System.exit(0);
  }

  private static URI sideChannel(URI bootstrap) throws IOException {
    try (InputStream in = bootstrap.resolve("/query").toURL().openStream()) {
      JsonNode ranks = JsonMapper.builder().build().readTree(in).path("0").path("worker_addr");
      return URI.create(ranks.path("0").path("0").asString());
    }
  }

  private void flood(URI prefiller) {
    while (true) {
      try (Socket socket = new Socket(prefiller.getHost(), prefiller.getPort());
          OutputStream out = new BufferedOutputStream(socket.getOutputStream(), BUFFER)) {
        DataInputStream in = new DataInputStream(socket.getInputStream());
        out.write(HexFormat.of().parseHex(GREETING + READY));
        out.flush();
        in.readFully(new byte[64]);
        Thread.ofPlatform().daemon().name("answers").start(() -> listen(in));
        send(out, pull(true));
        out.flush();
        while (true) {
          send(out, pull(false));
        }
      } catch (IOException e) {
        System.err.println("flooder: connects again: " + e.getMessage());
      }
    }
  }

  private void send(OutputStream out, byte[] message) throws IOException {
    if (message.length > 255) {
      out.write(2);
      new DataOutputStream(out).writeLong(message.length);
    } else {
      out.write(0);
      out.write(message.length);
    }
    out.write(message);
    if (sent.incrementAndGet() == 1000) {
      System.out.println("flooding");
    }
  }

  private void listen(DataInputStream in) {
    try {
      while (true) {
        boolean large = (in.readByte() & 2) != 0;
        in.skipNBytes(large ? in.readLong() : in.readUnsignedByte());
        heard.incrementAndGet();
      }
    } catch (IOException e) {
      // The sender notices it too.
    }
  }

  /** A pull of one block of a transfer that there is not, in MessagePack. */
  private byte[] pull(boolean withLayout) {
    String name = "flood-" + sent.get();
    Pack pack = new Pack();
    pack.map(withLayout ? 14 : 9);
    pack.text("remote_hostname").text("flooder").text("remote_port").number(1);
    pack.text("remote_tp_size").number(1).text("remote_tp_rank").number(0);
    pack.text("req_blocks").map(1).text(name);
    pack.list(2).text(name).list(1).list(1).number(1);
    int layers = withLayout ? BlockPool.LAYERS : 0;
    pack.text("kv_caches_base_addr").list(layers);
    for (int i = 0; i < layers; i++) {
      pack.number(0x7f00_0000_0000L + (long) i * BlockPool.BLOCKS * BlockPool.BLOCK_BYTES);
    }
    for (String lengths : new String[] {"block_lens", "kv_block_lens"}) {
      pack.text(lengths).list(layers);
      for (int i = 0; i < layers; i++) {
        pack.number(BlockPool.BLOCK_BYTES);
      }
    }
    if (withLayout) {
      pack.text("registered_layer_names").list(layers);
      for (int i = 0; i < layers; i++) {
        pack.text("layers." + i);
      }
      pack.text("registered_layer_indices").list(layers);
      for (int i = 0; i < layers; i++) {
        pack.number(i);
      }
      pack.text("registered_group_indices").list(layers);
      for (int i = 0; i < layers; i++) {
        pack.number(0);
      }
      pack.text("registered_shared_group_ids").list(layers);
      for (int i = 0; i < layers; i++) {
        pack.list(1).number(0);
      }
      pack.text("registered_row_offsets").list(layers);
      for (int i = 0; i < layers; i++) {
        pack.number(-1);
      }
    }
    return pack.text("layout_id").number(LAYOUT_ID).bytes();
  }

  /** As much of MessagePack as a pull needs. */
  private static final class Pack {
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(512);
    private final DataOutputStream out = new DataOutputStream(bytes);

    Pack map(int size) {
      bytes.write(0x80 | size);
      return this;
    }

    Pack list(int size) {
      bytes.write(0x90 | size);
      return this;
    }

    Pack text(String text) {
      byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
      bytes.write(0xd9);
      bytes.write(utf8.length);
      bytes.writeBytes(utf8);
      return this;
    }

    Pack number(long value) {
      try {
        if (value >= -32 && value < 128) {
          bytes.write((int) value);
        } else {
          bytes.write(0xd3);
          out.writeLong(value);
        }
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
      return this;
    }

    byte[] bytes() {
      return bytes.toByteArray();
    }
  }
}
