package dev.mooncake4j.examples.jlama.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Nothing lies about when a server is killed. */
class PageFolderTest {
  @TempDir private Path temp;

  private static void write(Path file) {
    try {
      Files.writeString(file, "page");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void nothingIsLeftOfItWhenPagesHaveBeenMade() throws Exception {
    PageFolder folder = PageFolder.create(temp);
    assertThat(folder.path()).isEmptyDirectory();
    for (int i = 0; i < 2; i++) {
      Path file = folder.path().resolve("page" + i);
      folder.whileThere(() -> write(file));
      assertThat(temp).isEmptyDirectory();
    }
  }

  @Test
  void nothingIsLeftOfItWhenPagesCannotBeMade() throws Exception {
    PageFolder folder = PageFolder.create(temp);
    assertThatThrownBy(
            () ->
                folder.whileThere(
                    () -> {
                      write(folder.path().resolve("page"));
                      throw new IllegalStateException("full");
                    }))
        .hasMessage("full");
    assertThat(temp).isEmptyDirectory();
  }

  @Test
  void aFolderOfAnothersIsNotUsed() throws Exception {
    PageFolder folder = PageFolder.create(temp);
    folder.whileThere(() -> {});
    Files.createDirectory(folder.path());
    assertThatThrownBy(() -> folder.whileThere(() -> write(folder.path().resolve("page"))))
        .isInstanceOf(UncheckedIOException.class)
        .hasMessageContaining("folder=" + folder.path());
    assertThat(folder.path()).isEmptyDirectory();
  }
}
