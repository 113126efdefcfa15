package dev.mooncake4j.core.channel;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.Pipe;
import java.util.concurrent.atomic.AtomicBoolean;

/** Brings a poller back from another thread: a pipe that holds at most one byte. */
final class WakeupPipe implements AutoCloseable {
  private final Pipe pipe;
  private final AtomicBoolean raised = new AtomicBoolean();
  private final ByteBuffer drain = ByteBuffer.allocate(16);

  WakeupPipe() {
    try {
      pipe = Pipe.open();
      pipe.source().configureBlocking(false);
      pipe.sink().configureBlocking(false);
    } catch (IOException e) {
      throw new UncheckedIOException("no pipe could be opened for the side channel", e);
    }
  }

  Pipe.SourceChannel source() {
    return pipe.source();
  }

  void raise() {
    if (raised.compareAndSet(false, true)) {
      try {
        pipe.sink().write(ByteBuffer.wrap(new byte[1]));
      } catch (ClosedChannelException e) {
        raised.set(false); // The channel is closed: nobody waits any more.
      } catch (IOException e) {
        raised.set(false);
        throw new UncheckedIOException(e);
      }
    }
  }

  /** Takes the byte, if there is one, before what it announces is looked at. */
  void lower() {
    try {
      drain.clear();
      pipe.source().read(drain);
      raised.set(false);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {
    try {
      pipe.sink().close();
      pipe.source().close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
