package dev.mooncake4j.examples;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The doctor as a program, on the real engine. */
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class DoctorRunTest {
  private record Run(int code, String out) {}

  private static Run doctor(List<String> jvmArguments, String... arguments) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(jvmArguments);
    command.addAll(
        List.of(
            "-cp",
            System.getProperty("java.class.path"),
            "dev.mooncake4j.examples.doctor.Doctor",
            "--bootstrap-port",
            "0"));
    command.addAll(List.of(arguments));
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().put("VLLM_HOST_IP", "127.0.0.1");
    builder.environment().put("MOONCAKE4J_SHARED_SECRET", "nobody-may-see-this");
    Process process = builder.start();
    try (BufferedReader out = process.inputReader(StandardCharsets.UTF_8)) {
      String text = out.lines().collect(Collectors.joining("\n"));
      assertThat(process.waitFor(30, TimeUnit.SECONDS)).isTrue();
      assertThat(text).doesNotContain("nobody-may-see-this");
      return new Run(process.exitValue(), text);
    } finally {
      process.destroyForcibly();
    }
  }

  @Test
  void allIsWellWithTheEngine() throws Exception {
    Run run = doctor(List.of("--enable-native-access=ALL-UNNAMED"), "--loopback-mib", "8");
    assertThat(run.out())
        .contains("  ok       library=")
        .contains("bytes=8388608 in ms=")
        .contains("every byte compared")
        .endsWith("doctor: ok");
    assertThat(run.code()).isZero();
  }

  @Test
  void anEngineThatIsNotThereIsAFaultAndTheRestIsStillLookedAt() throws Exception {
    Run run =
        doctor(
            List.of(
                "--enable-native-access=ALL-UNNAMED",
                "-Dmooncake4j.engine.library=/nowhere/engine.so"));
    assertThat(run.out())
        .contains("  PROBLEM  no engine library can be used")
        .contains("/nowhere/engine.so")
        .contains("  ok       bootstrap_port=0")
        .endsWith("doctor: problems=1");
    assertThat(run.code()).isEqualTo(1);
  }
}
