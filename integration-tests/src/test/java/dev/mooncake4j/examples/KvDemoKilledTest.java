package dev.mooncake4j.examples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The demo, on the real engine, when one of its two JVMs is killed. */
class KvDemoKilledTest {

  @ParameterizedTest
  @ValueSource(strings = {"prefiller", "decoder"})
  void theDemoSaysSoAtOnceAndFails(String victim) throws Exception {
    Process demo =
        new ProcessBuilder(
                List.of(
                    Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                    "--enable-native-access=ALL-UNNAMED",
                    "-cp",
                    System.getProperty("java.class.path"),
                    "dev.mooncake4j.examples.demo.KvDemo"))
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    try (BufferedReader out = demo.inputReader(StandardCharsets.UTF_8)) {
      Pattern started = Pattern.compile(victim + " +pid (\\d+) .*");
      Matcher line = started.matcher("");
      while (!line.matches()) {
        line = started.matcher(String.valueOf(out.readLine()));
      }
      long killed = System.nanoTime();
      ProcessHandle.of(Long.parseLong(line.group(1))).orElseThrow().destroyForcibly();
      String rest = out.lines().collect(Collectors.joining("\n"));
      assertThat(demo.waitFor(30, TimeUnit.SECONDS)).isTrue();
      assertThat(demo.exitValue()).as(rest).isEqualTo(1);
      assertThat(rest).contains("demo: failed: ").contains(victim + " (pid " + line.group(1));
      assertThat(rest).doesNotContain("demo: ok");
      assertThat(Duration.ofNanos(System.nanoTime() - killed)).isLessThan(Duration.ofSeconds(15));
    } finally {
      demo.descendants().forEach(ProcessHandle::destroyForcibly);
      demo.destroyForcibly();
    }
  }
}
