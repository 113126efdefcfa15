package dev.mooncake4j.engine;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;

/** The library of {@code fake_engine.cpp}: what is to go wrong in it, and what it has counted. */
final class FakeEngine {
  /** Of the tests that run with this library, in a process of their own. */
  static final String TAG = "c-api-library";

  private static final FunctionDescriptor SET = FunctionDescriptor.ofVoid(JAVA_INT);

  private FakeEngine() {}

  /** Opens the library, which the system property names, as the engine does. */
  static void require() {
    Engines.require();
    set("fake_hold", 0);
  }

  /** The next submits do not move. */
  static void hold(int submits) {
    set("fake_hold", submits);
  }

  /** What is held goes on and completes. */
  static void release() {
    set("fake_release", 0);
  }

  /** What is held fails. */
  static void releaseAsFailed() {
    set("fake_release", 1);
  }

  /** A task of the next submit fails at once. */
  static void failTask(int task) {
    set("fake_fail_task", task);
  }

  /** The next submit answers a code, and half of it is under way all the same. */
  static void refuseSubmit(int code) {
    set("fake_refuse_submit", code);
  }

  /** The next batches are refused. */
  static void refuseBatches(int count) {
    set("fake_refuse_batches", count);
  }

  /** The next tasks say TIMEOUT once, and go on. */
  static void timeoutOnce(int tasks) {
    set("fake_timeout_once", tasks);
  }

  /** The engine is busy with the next batches that are to be freed. */
  static void busyFrees(int count) {
    set("fake_busy_frees", count);
  }

  /** The port of the next engine. */
  static void nextPort(int port) {
    set("fake_next_port", port);
  }

  /** Whether the peer at port 9 answers nothing. */
  static void hangOpen(boolean hang) {
    set("fake_hang_open", hang ? 1 : 0);
  }

  /** Nothing goes wrong, and nothing has been counted. */
  static void reset() {
    try {
      handle("fake_reset", FunctionDescriptor.ofVoid()).invokeExact();
    } catch (Throwable e) {
      throw new AssertionError(e);
    }
  }

  /** What it has counted under a name. */
  static int count(String what) {
    try (Arena arena = Arena.ofConfined()) {
      return (int)
          handle("fake_count", FunctionDescriptor.of(JAVA_INT, ADDRESS))
              .invokeExact(arena.allocateFrom(what));
    } catch (Throwable e) {
      throw new AssertionError(e);
    }
  }

  private static void set(String function, int value) {
    try {
      handle(function, SET).invokeExact(value);
    } catch (Throwable e) {
      throw new AssertionError(e);
    }
  }

  private static MethodHandle handle(String function, FunctionDescriptor descriptor) {
    return Linker.nativeLinker()
        .downcallHandle(SymbolLookup.loaderLookup().findOrThrow(function), descriptor);
  }
}
