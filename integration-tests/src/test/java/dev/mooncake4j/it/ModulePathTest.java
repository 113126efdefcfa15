package dev.mooncake4j.it;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.io.StringWriter;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * On the module path a server that requires the API alone gets the connector, its engine and its
 * configuration reader by services, and only the engine's module needs native access.
 */
@Tag("two-jvms")
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class ModulePathTest {
  /** Artifacts that a server would put there, by the beginning of their file names. */
  private static final List<String> LIBRARIES =
      List.of("jspecify-", "slf4j-api-", "slf4j-simple-", "jackson-", "netty-");

  private static final List<String> MODULES =
      List.of("connector-api", "connector-core", "transfer-native", "bootstrap");

  @Test
  void oneBlockCrosses(@TempDir Path folder) throws Exception {
    String modulePath = modulePath();
    compile(modulePath, folder);
    Process process =
        new ProcessBuilder(
                PeerProcess.javaExecutable(),
                "--module-path",
                modulePath + File.pathSeparator + folder,
                "--enable-native-access=dev.mooncake4j.engine",
                "--illegal-native-access=deny",
                "-Xmx256m",
                "--module",
                "dev.mooncake4j.smoke/dev.mooncake4j.smoke.Smoke")
            .directory(folder.toFile())
            .redirectError(folder.resolve("stderr").toFile())
            .start();
    try {
      String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
      assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
      String errors = Files.readString(folder.resolve("stderr"));
      assertThat(process.exitValue()).as("exit code; %s", errors).isZero();
      assertThat(output)
          .as("output; %s", errors)
          .contains("module=dev.mooncake4j.smoke connector=dev.mooncake4j.core")
          .contains("received=[d] failed=[] there=true");
    } finally {
      process.destroyForcibly();
    }
  }

  private static String modulePath() {
    List<String> path = new ArrayList<>();
    for (String entry : PeerProcess.classPath().split(File.pathSeparator, -1)) {
      String name = Path.of(entry).getFileName().toString().toLowerCase(Locale.ROOT);
      boolean library = LIBRARIES.stream().anyMatch(name::startsWith);
      boolean module =
          MODULES.stream()
              .anyMatch(m -> name.startsWith(m) || entry.endsWith(m + "/target/classes"));
      if (library || module) {
        path.add(entry);
      }
    }
    return String.join(File.pathSeparator, path);
  }

  private static void compile(String modulePath, Path into) throws IOException, URISyntaxException {
    JavaCompiler javac = Objects.requireNonNull(ToolProvider.getSystemJavaCompiler());
    URI sources =
        Objects.requireNonNull(ModulePathTest.class.getResource("/module-smoke/module-info.java"))
            .toURI();
    Path root = Objects.requireNonNull(Path.of(sources).getParent());
    try (var files = javac.getStandardFileManager(null, null, StandardCharsets.UTF_8)) {
      StringWriter messages = new StringWriter();
      boolean compiled =
          javac
              .getTask(
                  messages,
                  files,
                  null,
                  List.of(
                      "-proc:none",
                      "--module-path",
                      modulePath,
                      "-d",
                      into.resolve("dev.mooncake4j.smoke").toString()),
                  null,
                  files.getJavaFileObjects(
                      root.resolve("module-info.java"),
                      root.resolve("dev/mooncake4j/smoke/Smoke.java")))
              .call();
      assertThat(compiled).as(messages.toString()).isTrue();
    }
  }
}
