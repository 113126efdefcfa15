package dev.mooncake4j.examples.jlama.demo;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;

/**
 * Runs the program whose class is the first argument until it ends by itself or standard input
 * does: a child that is started with a pipe there never outlives its parent, however that one ends.
 */
public final class Child {
  private Child() {}

  /** Runs {@code CLASS ARGUMENTS...}. */
  public static void main(String[] args) throws ReflectiveOperationException {
    Thread.ofPlatform().name("parent-watch").daemon().start(Child::awaitParent);
    try {
      Class.forName(args[0])
          .getMethod("main", String[].class)
          .invoke(null, (Object) Arrays.copyOfRange(args, 1, args.length));
    } catch (InvocationTargetException e) {
      e.printStackTrace();
      System.exit(1);
    }
  }

  private static void awaitParent() {
    try {
      while (System.in.read() >= 0) {
        // Nothing is said to it.
      }
    } catch (IOException e) {
      // The same: nobody is there.
    }
    System.exit(0);
  }
}
