package dev.mooncake4j.engine.load;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Whether a real Python lives in this process. */
final class PythonInProcess {
  private static final Path MAPS = Path.of("/proc/self/maps");

  private PythonInProcess() {}

  /** The file of the {@code libpython3} that is mapped, or {@code null}. */
  static @Nullable String find() {
    try {
      return find(Files.readAllLines(MAPS));
    } catch (IOException e) {
      // No such file system: then nothing is known of a Python.
      return null;
    }
  }

  static @Nullable String find(List<String> maps) {
    for (String line : maps) {
      int path = line.indexOf('/');
      if (path >= 0 && line.indexOf("/libpython3", path) >= 0) {
        return line.substring(path);
      }
    }
    return null;
  }
}
