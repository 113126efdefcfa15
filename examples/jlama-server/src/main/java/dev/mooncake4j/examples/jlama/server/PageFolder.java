package dev.mooncake4j.examples.jlama.server;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

/**
 * Where Jlama makes the files behind its pages: on the disk only while they are made. A mapped file
 * needs no name, and one without a name is gone with the process however it ends.
 */
final class PageFolder {
  private static final FileAttribute<Set<PosixFilePermission>> OURS =
      PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"));

  private final Path path;
  private boolean there = true;

  private PageFolder(Path path) {
    this.path = path;
  }

  /** Makes one, which is there until pages have been made in it, or the process ends well. */
  static PageFolder create(Path parent) throws IOException {
    Path path = Files.createTempDirectory(parent, "jlama-pages", OURS);
    path.toFile().deleteOnExit();
    return new PageFolder(path);
  }

  Path path() {
    return path;
  }

  /**
   * Makes pages while the folder is there; from any thread, one at a time.
   *
   * @throws UncheckedIOException if it cannot be made, as where another has its name by now
   */
  synchronized void whileThere(Runnable makesPages) {
    try {
      if (!there) {
        Files.createDirectory(path, OURS);
        there = true;
      }
      try {
        makesPages.run();
      } finally {
        remove();
      }
    } catch (IOException e) {
      throw new UncheckedIOException("the pages in folder=" + path + " cannot be made", e);
    }
  }

  private void remove() throws IOException {
    try (DirectoryStream<Path> files = Files.newDirectoryStream(path)) {
      for (Path file : files) {
        Files.delete(file);
      }
    }
    Files.delete(path);
    there = false;
  }
}
