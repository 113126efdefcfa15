package dev.mooncake4j.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;

import com.code_intelligence.jazzer.junit.DictionaryFile;
import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.mooncake4j.bootstrap.QueryJson.MalformedAnswerException;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.buffer.UnpooledByteBufAllocator;
import io.netty.channel.embedded.EmbeddedChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What clients send to the bootstrap server, and what a server answers to {@code /query}. */
class BootstrapFuzzTest {
  private static final Pattern HEAD =
      Pattern.compile(
          "HTTP/1\\.1 (?:100|200|400|404|405|408|413|414|422|431|503|505) [ -~]+\\r\\n"
              + "((?:[A-Za-z-]+: [ -~]*\\r\\n)*)\\r\\n");
  private static final Pattern LENGTH = Pattern.compile("content-length: (\\d+)\\r\\n");
  private static final byte[] QUERY =
      "GET /query HTTP/1.1\r\n\r\n".getBytes(StandardCharsets.US_ASCII);

  /** One server's state, and a connection to it without a socket, on a clock that stands still. */
  private static final class Connection {
    private final UnpooledByteBufAllocator buffers = new UnpooledByteBufAllocator(false);
    private final LongAdder unexpectedErrors = new LongAdder();
    private final WorkerRegistry registry;
    private final EmbeddedChannel channel = new EmbeddedChannel();
    private final StringBuilder answers = new StringBuilder();

    Connection(WorkerRegistry registry) {
      this.registry = registry;
      channel.freezeTime();
      channel.config().setAllocator(buffers);
      // Every second former worker is gone.
      Registrar registrar =
          new Registrar(
              registry,
              addrs -> CompletableFuture.completedFuture((addrs.hashCode() & 1) == 0),
              channel.eventLoop(),
              Duration.ofSeconds(1));
      HttpServer.serve(
          channel.pipeline(),
          BootstrapServerConfig.onPort(0),
          new Router(registry, registrar, null),
          unexpectedErrors);
    }

    /** Sends bytes; what comes after the connection was closed is not heard. */
    void send(byte[] bytes) {
      if (channel.isOpen() && bytes.length > 0) {
        channel.writeInbound(Unpooled.wrappedBuffer(bytes));
      }
      for (ByteBuf out = channel.readOutbound(); out != null; out = channel.readOutbound()) {
        answers.append(out.toString(StandardCharsets.ISO_8859_1));
        out.release();
      }
    }

    /** Waits until the server has lost its patience; all answers. */
    String end() {
      for (int i = 0; i < 3; i++) {
        channel.advanceTimeBy(10, TimeUnit.MINUTES);
        channel.runScheduledPendingTasks();
        send(new byte[0]);
      }
      assertThat(channel.isOpen()).as("open after half an hour of silence").isFalse();
      channel.checkException();
      assertThat(channel.<Object>readInbound()).isNull();
      assertThat(unexpectedErrors.sum()).as("unexpected errors").isZero();
      assertThat(buffers.metric().usedHeapMemory() + buffers.metric().usedDirectMemory())
          .as("bytes of buffers in use")
          .isZero();
      return answers.toString();
    }
  }

  /** Every request is answered, the same however its bytes come in, and harms no other. */
  @FuzzTest
  @DictionaryFile(resourcePath = "/dev/mooncake4j/bootstrap/http.dict")
  void http(byte[] bytes) throws MalformedAnswerException {
    Connection whole = new Connection(new WorkerRegistry());
    whole.send(bytes);
    String answers = whole.end();
    assertAnswers(answers);

    Connection pieces = new Connection(new WorkerRegistry());
    for (int at = 0; at < bytes.length; at += 5) {
      pieces.send(Arrays.copyOfRange(bytes, at, Math.min(at + 5, bytes.length)));
    }
    assertThat(withoutLate(pieces.end())).isEqualTo(withoutLate(answers));
    assertThat(pieces.registry.snapshot().answer()).isEqualTo(whole.registry.snapshot().answer());

    Connection next = new Connection(whole.registry);
    next.send(QUERY);
    String answer = next.end();
    assertThat(answer).startsWith("HTTP/1.1 200 ");
    byte[] body =
        answer.substring(answer.indexOf("\r\n\r\n") + 4).getBytes(StandardCharsets.ISO_8859_1);
    assertThat(QueryJson.read(body)).isEqualTo(whole.registry.snapshot().answer());
  }

  /** Whether an empty line after a request is the beginning of another hangs on how it comes. */
  private static String withoutLate(String answers) {
    int last = answers.lastIndexOf("HTTP/1.1 ");
    return answers.startsWith("408 ", last + 9) ? answers.substring(0, last) : answers;
  }

  private static void assertAnswers(String answers) {
    Matcher head = HEAD.matcher(answers);
    for (int at = 0; at < answers.length(); ) {
      assertThat(head.find(at) && head.start() == at).as("at=%d of %s", at, answers).isTrue();
      at = head.end();
      Matcher length = LENGTH.matcher(head.group(1));
      // An answer to HEAD, and 100 Continue, have no body; every other one is an object.
      if (at < answers.length() && answers.charAt(at) == '{') {
        assertThat(length.find()).as("no length at=%d of %s", at, answers).isTrue();
        int end = at + Integer.parseInt(length.group(1));
        byte[] body = answers.substring(at, end).getBytes(StandardCharsets.ISO_8859_1);
        assertThat(Json.MAPPER.readTree(body).isObject()).isTrue();
        at = end;
      }
    }
  }

  /** An answer can be written and read again, or is malformed; as an error it is one short line. */
  @FuzzTest
  @DictionaryFile(resourcePath = "/dev/mooncake4j/bootstrap/query.dict")
  void answer(byte[] body) throws MalformedAnswerException {
    assertLine(ErrorText.detail(body), 2048 + 3);
    QueryAnswer read;
    try {
      read = QueryJson.read(body);
    } catch (MalformedAnswerException e) {
      assertLine(String.valueOf(e.getMessage()), 300);
      return;
    }
    byte[] written = QueryJson.write(read);
    assertThat(QueryJson.read(written)).isEqualTo(read);
    int cost =
        QueryJson.EMPTY_COST + read.engines().values().stream().mapToInt(QueryJson::costOf).sum();
    assertThat(cost).isGreaterThanOrEqualTo(written.length);
  }

  private static void assertLine(String text, int limit) {
    assertThat(text).hasSizeLessThanOrEqualTo(limit);
    assertThat(text.chars().anyMatch(Character::isISOControl)).as(text).isFalse();
  }
}
