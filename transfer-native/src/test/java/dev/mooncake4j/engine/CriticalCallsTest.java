package dev.mooncake4j.engine;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.engine.ffi.TransferEngineC;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.constantpool.MemberRefEntry;
import java.lang.classfile.constantpool.PoolEntry;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.net.URI;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * A critical native call stays in the Java state: for as long as it lasts no garbage collection can
 * begin, and every other thread that allocates waits. It is for functions that return at once, and
 * the engine has hardly any: even its getters take locks. So whoever links one is named here.
 */
class CriticalCallsTest {
  /** Classes that may link a critical call, by name; each with its reason. */
  private static final Set<String> ALLOWED = Set.of();

  /** What the scan must find. */
  private static final class Offender {
    static MethodHandle link() {
      Linker linker = Linker.nativeLinker();
      return linker.downcallHandle(
          linker.defaultLookup().findOrThrow("getpid"),
          FunctionDescriptor.of(ValueLayout.JAVA_INT),
          Linker.Option.critical(false));
    }

    private Offender() {}
  }

  @Test
  void onlyNamedClassesLinkACriticalCall() throws Exception {
    List<ClassModel> classes = compiledClasses();
    assertThat(classes)
        .extracting(CriticalCallsTest::name)
        .as("classes looked at")
        .contains(TransferEngineC.class.getName(), NativeTransferEngine.class.getName());
    assertThat(classes.stream().filter(CriticalCallsTest::namesCritical))
        .extracting(CriticalCallsTest::name)
        .isSubsetOf(ALLOWED);
  }

  @Test
  void oneThatLinksACriticalCallIsFound() throws Throwable {
    try (InputStream in =
        CriticalCallsTest.class.getResourceAsStream("CriticalCallsTest$Offender.class")) {
      assertThat(in).isNotNull();
      assertThat(namesCritical(ClassFile.of().parse(in.readAllBytes()))).isTrue();
    }
    assertThat((int) Offender.link().invokeExact()).isPositive();
  }

  /** By the constant pool, so that a method reference is found as well as a call. */
  private static boolean namesCritical(ClassModel compiled) {
    for (PoolEntry entry : compiled.constantPool()) {
      if (entry instanceof MemberRefEntry member
          && member.owner().asInternalName().equals("java/lang/foreign/Linker$Option")
          && member.name().equalsString("critical")) {
        return true;
      }
    }
    return false;
  }

  private static String name(ClassModel model) {
    return model.thisClass().asInternalName().replace('/', '.');
  }

  /** The classes of this module as the build has made them, in a folder or a jar. */
  private static List<ClassModel> compiledClasses() throws Exception {
    URI place =
        NativeTransferEngine.class.getProtectionDomain().getCodeSource().getLocation().toURI();
    Path path = Path.of(place);
    if (Files.isDirectory(path)) {
      return classesBelow(path);
    }
    try (FileSystem jar = FileSystems.newFileSystem(path)) {
      return classesBelow(jar.getPath("/"));
    }
  }

  private static List<ClassModel> classesBelow(Path root) throws IOException {
    try (Stream<Path> files = Files.walk(root)) {
      return files.filter(f -> f.toString().endsWith(".class")).map(f -> read(f)).toList();
    }
  }

  private static ClassModel read(Path file) {
    try {
      return ClassFile.of().parse(Files.readAllBytes(file));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
