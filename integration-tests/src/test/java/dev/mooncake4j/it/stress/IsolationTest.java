package dev.mooncake4j.it.stress;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.mooncake4j.it.stress.IsolationMain.Bad;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A bad decoder holds no good one up. How much slower the good one gets is for {@code ./stress.sh
 * --isolation}; here each of its requests completes, and in a time that one which has to wait for
 * the bad one's cannot: those hang for the whole round.
 */
class IsolationTest {
  private static final String[] SHORT = {
    "--rounds", "1", "--pulls", "100", "--bound-millis", "2000", "--only"
  };

  private static String[] only(String kind, String... more) {
    List<String> options = new ArrayList<>(List.of(SHORT));
    options.add(kind);
    options.addAll(List.of(more));
    return options.toArray(String[]::new);
  }

  @ParameterizedTest
  @ValueSource(strings = {"stopped", "flooder"})
  @Tag("two-jvms")
  @Timeout(value = 240, unit = TimeUnit.SECONDS)
  void aGoodDecoderIsNotHeldUpByOneThatIs(String kind) throws InterruptedException {
    try (IsolationRun run = IsolationRun.of(IsolationMain.parse(only(kind)))) {
      assertThat(run.run()).as("see the output").isTrue();
    }
  }

  @Test
  @Tag("two-jvms")
  @Timeout(value = 240, unit = TimeUnit.SECONDS)
  void aGoodDecoderIsNotHeldUpByOneBehindABlackHole() throws Exception {
    List<String> own = new ArrayList<>(List.of("unshare", "--net", "--mount"));
    List<String> id = List.of("id", "-u");
    if (!output(id).strip().equals("0")) {
      own.addAll(List.of("--user", "--map-root-user"));
    }
    List<String> probe = new ArrayList<>(own);
    probe.addAll(
        List.of(
            "sh",
            "-c",
            "mount -t tmpfs tmpfs /run && ip link add br0 type bridge && ip netns add probe &&"
                + " ip link add probe0 type veth peer name eth0 netns probe &&"
                + " ip netns exec probe true && echo yes"));
    assumeTrue(
        output(probe).strip().endsWith("yes"),
        "no link can be cut: no network namespaces are to be had (ip and unshare, as root)");
    List<String> command = new ArrayList<>(own);
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(
        List.of(
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            System.getProperty(
                "surefire.test.class.path", System.getProperty("java.class.path", "")),
            IsolationMain.class.getName()));
    command.addAll(List.of(only("black-hole", "--links", "namespaces")));
    String said = output(command);
    System.out.print(said);
    assertThat(said).contains("isolation: ok").contains("black-hole round 1");
  }

  /** What a program says, or why it cannot be started. */
  private static String output(List<String> command) throws InterruptedException {
    try {
      Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
      process.getOutputStream().close();
      String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      process.waitFor();
      return said;
    } catch (IOException e) {
      return String.valueOf(e.getMessage());
    }
  }

  @Test
  void optionsAreReadAndEveryBadOneIsNamed() {
    IsolationMain.Options options =
        IsolationMain.parse("--rounds", "3", "--pulls", "50", "--only", "black-hole");
    assertThat(options.rounds()).isEqualTo(3);
    assertThat(options.pulls()).isEqualTo(50);
    assertThat(options.kinds()).containsExactly(Bad.BLACK_HOLE);
    assertThat(IsolationMain.parse().kinds()).hasSize(Bad.values().length);
    assertThatThrownBy(() -> IsolationMain.parse("--only", "lazy", "--rounds", "0", "--fast", "1"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("--only lazy")
        .hasMessageContaining("--rounds 0")
        .hasMessageContaining("--fast is not known");
  }
}
