package dev.mooncake4j.core.channel;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.HexFormat;
import org.jspecify.annotations.NullMarked;

/**
 * A ZMTP peer by hand, with the greeting and the READY of a captured vLLM process. While it waits
 * for the side under test, it has it polled.
 */
@NullMarked
final class RawZmtp implements AutoCloseable {
  static final String GREETING = "ff00000000000000017f03014e554c4c" + "00".repeat(48);
  static final String READY_DEALER =
      "04290552454144590b536f636b65742d54797065000000064445414c4552084964656e7469747900000000";
  static final String READY_ROUTER =
      "04290552454144590b536f636b65742d5479706500000006524f55544552084964656e7469747900000000";

  private static final long PATIENCE_NANOS = 20_000_000_000L;

  private final SocketChannel socket;
  private final Runnable pump;

  private RawZmtp(SocketChannel socket, Runnable pump) throws IOException {
    this.socket = socket;
    this.pump = pump;
    socket.configureBlocking(false);
  }

  /** Connects and says nothing. */
  static RawZmtp connect(int port, Runnable pump) throws IOException {
    return new RawZmtp(
        SocketChannel.open(new InetSocketAddress(InetAddress.getLoopbackAddress(), port)), pump);
  }

  /** Connects as a DEALER. */
  static RawZmtp dealer(int port, Runnable pump) throws IOException {
    RawZmtp peer = connect(port, pump);
    peer.handshake(READY_DEALER);
    return peer;
  }

  /** Connects as a DEALER from another address of this host. */
  static RawZmtp dealer(String from, int port, Runnable pump) throws IOException {
    SocketChannel socket = SocketChannel.open();
    socket.bind(new InetSocketAddress(from, 0));
    socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    RawZmtp peer = new RawZmtp(socket, pump);
    peer.handshake(READY_DEALER);
    return peer;
  }

  /** Accepts a connection and says nothing. */
  static RawZmtp accept(ServerSocketChannel server, Runnable pump) throws IOException {
    long deadline = System.nanoTime() + PATIENCE_NANOS;
    while (true) {
      SocketChannel socket = server.accept();
      if (socket != null) {
        return new RawZmtp(socket, pump);
      }
      pumpUntil(deadline, pump);
    }
  }

  /** Accepts a connection as a ROUTER. */
  static RawZmtp router(ServerSocketChannel server, Runnable pump) throws IOException {
    RawZmtp peer = accept(server, pump);
    peer.handshake(READY_ROUTER);
    return peer;
  }

  static ServerSocketChannel listen() throws IOException {
    ServerSocketChannel server = ServerSocketChannel.open();
    server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
    server.configureBlocking(false);
    return server;
  }

  static int port(ServerSocketChannel server) {
    return server.socket().getLocalPort();
  }

  void handshake(String ready) throws IOException {
    send(GREETING);
    read(64);
    send(ready);
    readFrame();
  }

  byte[] read(int count) throws IOException {
    ByteBuffer in = ByteBuffer.allocate(count);
    long deadline = System.nanoTime() + PATIENCE_NANOS;
    while (in.hasRemaining()) {
      int n = socket.read(in);
      if (n < 0) {
        throw new EOFException("closed by the other side");
      }
      if (n == 0) {
        pumpUntil(deadline, pump);
      }
    }
    return in.array();
  }

  /** The next frame, head and body. */
  byte[] readFrame() throws IOException {
    byte[] head = read(2);
    if ((head[0] & 2) == 0) {
      return concat(head, read(head[1] & 0xff));
    }
    byte[] rest = read(7);
    long length = ByteBuffer.wrap(concat(head, rest)).getLong(1);
    return concat(concat(head, rest), read(Math.toIntExact(length)));
  }

  /** The body of the next message; commands are passed over. */
  byte[] readMessage() throws IOException {
    while (true) {
      byte[] frame = readFrame();
      if ((frame[0] & 4) == 0) {
        int head = (frame[0] & 2) == 0 ? 2 : 9;
        return java.util.Arrays.copyOfRange(frame, head, frame.length);
      }
    }
  }

  void send(String hex) throws IOException {
    send(HexFormat.of().parseHex(hex));
  }

  void send(byte[] bytes) throws IOException {
    ByteBuffer out = ByteBuffer.wrap(bytes);
    long deadline = System.nanoTime() + PATIENCE_NANOS;
    while (out.hasRemaining()) {
      if (socket.write(out) == 0) {
        pumpUntil(deadline, pump);
      }
    }
  }

  private static void pumpUntil(long deadline, Runnable pump) throws IOException {
    if (System.nanoTime() - deadline > 0) {
      throw new IOException("still waiting");
    }
    pump.run();
  }

  private static byte[] concat(byte[] a, byte[] b) {
    byte[] out = java.util.Arrays.copyOf(a, a.length + b.length);
    System.arraycopy(b, 0, out, a.length, b.length);
    return out;
  }

  @Override
  public void close() throws IOException {
    socket.close();
  }
}
