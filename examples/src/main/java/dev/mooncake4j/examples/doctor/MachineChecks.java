package dev.mooncake4j.examples.doctor;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The JVM, the environment and the devices. */
final class MachineChecks {
  private static final int JAVA = 25;
  private static final Pattern MEMORY_LOCK =
      Pattern.compile("(?m)^Max locked memory\\s+(\\S+)\\s+(\\S+)");

  private final Report report;
  private final Path root;

  /**
   * Checks of a machine.
   *
   * @param root where its {@code sys} and {@code proc} are
   */
  MachineChecks(Report report, Path root) {
    this.report = report;
    this.root = root;
  }

  void jvm() {
    report.section("jvm");
    String line =
        "java="
            + Runtime.version()
            + " vendor="
            + System.getProperty("java.vendor")
            + " os="
            + System.getProperty("os.name")
            + " "
            + System.getProperty("os.version")
            + " arch="
            + System.getProperty("os.arch")
            + " cores="
            + Runtime.getRuntime().availableProcessors()
            + " max_heap_mib="
            + (Runtime.getRuntime().maxMemory() >> 20);
    if (Runtime.version().feature() >= JAVA) {
      report.ok(line);
    } else {
      report.problem(line, "run it with a JDK " + JAVA);
    }
    if (!System.getProperty("os.name").equals("Linux")) {
      report.problem(
          "the engine is made for Linux alone", "use Linux on x86_64 or aarch64, or a container");
    }
    report.ok("flags=" + hidden(ManagementFactory.getRuntimeMXBean().getInputArguments()));
    nativeAccess(MachineChecks.class.getModule().isNativeAccessEnabled());
  }

  void nativeAccess(boolean enabled) {
    if (enabled) {
      report.ok("native access is enabled");
    } else {
      report.problem(
          "native access is not enabled",
          "add --enable-native-access=ALL-UNNAMED, or the module dev.mooncake4j.engine");
    }
  }

  /** Arguments of a JVM, those that may hold a secret without it. */
  static List<String> hidden(List<String> arguments) {
    List<String> shown = new ArrayList<>();
    for (String argument : arguments) {
      int equals = argument.indexOf('=');
      shown.add(
          equals > 0 && isSecret(argument.substring(0, equals))
              ? argument.substring(0, equals) + "=(hidden)"
              : argument);
    }
    return shown;
  }

  private static boolean isSecret(String name) {
    String lower = name.toLowerCase(Locale.ROOT);
    return !lower.endsWith("_file")
        && List.of("secret", "password", "token", "key", "credential").stream()
            .anyMatch(lower::contains);
  }

  /** The variables that the connector and the engine read. */
  void environment(Map<String, String> environment) {
    report.section("environment");
    List<String> shown = new ArrayList<>();
    new TreeMap<>(environment)
        .forEach(
            (name, value) -> {
              if (name.startsWith("MC_")
                  || name.startsWith("MOONCAKE4J_")
                  || name.startsWith("VLLM_MOONCAKE_")
                  || name.equals("VLLM_HOST_IP")
                  || name.equals("WITH_NVIDIA_PEERMEM")) {
                shown.add(name + "=" + (isSecret(name) ? "(hidden)" : value));
              }
            });
    report.ok(shown.isEmpty() ? "none of the variables is set" : String.join(" ", shown));
  }

  /** RDMA devices and GPUs; returns whether some RDMA port can be used. */
  boolean devices(Map<String, String> environment) {
    report.section("devices");
    boolean usable = false;
    List<Path> devices = children(root.resolve("sys/class/infiniband"));
    for (Path device : devices) {
      for (Path port : children(device.resolve("ports"))) {
        String state = text(port.resolve("state"));
        String line =
            "rdma_device="
                + device.getFileName()
                + " port="
                + port.getFileName()
                + " link_layer="
                + text(port.resolve("link_layer"))
                + " rate="
                + text(port.resolve("rate"))
                + " state="
                + state;
        if (state.contains("ACTIVE")) {
          usable = true;
          report.ok(line);
        } else {
          report.note(line);
        }
      }
    }
    if (devices.isEmpty()) {
      report.note("no rdma device: transfers go over tcp");
    } else if (!usable) {
      report.problem(
          "no port of rdma_devices=" + devices.size() + " is active",
          "look at the cable, the switch and ibstat; in a container, pass /dev/infiniband in");
    } else {
      lockedMemory();
    }
    gpus(environment);
    return usable;
  }

  private void lockedMemory() {
    Matcher limit = MEMORY_LOCK.matcher(text(root.resolve("proc/self/limits"), "\n"));
    if (limit.find() && !limit.group(1).equals("unlimited")) {
      report.problem(
          "locked memory is limited, bytes=" + limit.group(1),
          "raise it for rdma: ulimit -l unlimited; in a container, --ulimit memlock=-1");
    }
  }

  private void gpus(Map<String, String> environment) {
    int gpus = children(root.resolve("proc/driver/nvidia/gpus")).size();
    if (gpus == 0) {
      report.note("no nvidia gpu: the kv cache is in host memory");
      return;
    }
    boolean peermem =
        Files.isDirectory(root.resolve("sys/module/nvidia_peermem"))
            || Files.isDirectory(root.resolve("sys/module/nv_peer_mem"));
    String line = "gpus=" + gpus + " nvidia_peermem=" + (peermem ? "loaded" : "not loaded");
    if (peermem || "0".equals(environment.get("WITH_NVIDIA_PEERMEM"))) {
      report.ok(line);
    } else {
      report.note(line + ": for GPUDirect set WITH_NVIDIA_PEERMEM=0, or modprobe nvidia-peermem");
    }
  }

  private static List<Path> children(Path folder) {
    List<Path> found = new ArrayList<>();
    try (DirectoryStream<Path> all = Files.newDirectoryStream(folder)) {
      all.forEach(found::add);
    } catch (IOException e) {
      // Not there.
      return List.of();
    }
    found.sort(null);
    return found;
  }

  private static String text(Path file) {
    return text(file, " ").strip();
  }

  private static String text(Path file, String lineEnd) {
    try {
      return Files.readString(file).replace("\n", lineEnd);
    } catch (IOException e) {
      return "?";
    }
  }
}
