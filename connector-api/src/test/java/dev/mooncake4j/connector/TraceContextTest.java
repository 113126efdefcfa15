package dev.mooncake4j.connector;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TraceContextTest {
  private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
  private static final String PARENT = "00f067aa0ba902b7";

  private static TraceContext read(String traceparent) {
    return Objects.requireNonNull(TraceContext.parse(traceparent));
  }

  @Test
  void aHeaderIsReadAndWrittenBack() {
    for (String flags : new String[] {"00", "01", "0a", "ff"}) {
      String header = "00-" + TRACE + "-" + PARENT + "-" + flags;
      TraceContext trace = read(header);
      assertThat(trace).isEqualTo(new TraceContext(TRACE, PARENT, Integer.parseInt(flags, 16)));
      assertThat(trace.traceparent()).isEqualTo(header);
    }
  }

  @Test
  void aLaterVersionIsReadAsFarAsItIsKnown() {
    TraceContext expected = new TraceContext(TRACE, PARENT, 1);
    String rest = "-" + TRACE + "-" + PARENT + "-01";
    assertThat(read("01" + rest)).isEqualTo(expected);
    assertThat(read("cc" + rest + "-what-the-future-will-be-like")).isEqualTo(expected);
    assertThat(read("cc" + rest + "-")).isEqualTo(expected);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "00",
        // Of another length, or more in version 00.
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
        " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        // The version that there is not.
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        // No hexadecimal digits, or upper-case ones, in each field.
        "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902bx-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0A",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-+1",
        "00-\u0664bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        // Ids of zeros alone.
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        // Other dashes.
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
      })
  void anythingElseIsNone(String traceparent) {
    assertThat(TraceContext.parse(traceparent)).isNull();
  }

  @Test
  void noneIsMadeOfWhatIsNoId() {
    assertThat(TraceContext.parse(null)).isNull();
    assertThatThrownBy(() -> new TraceContext("x", PARENT, 1)).hasMessageContaining("trace_id");
    assertThatThrownBy(() -> new TraceContext(TRACE, "x", 1)).hasMessageContaining("parent_id");
    assertThatThrownBy(() -> new TraceContext(TRACE, PARENT, 256))
        .hasMessageContaining("trace_flags=256");
  }
}
