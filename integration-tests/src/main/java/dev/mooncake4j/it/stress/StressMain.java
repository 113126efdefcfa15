package dev.mooncake4j.it.stress;

import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Prefillers and decoders under load, with faults: see {@code --help}. Exit codes: 0 if all was as
 * it has to be, 1 if not, 2 for bad options.
 */
public final class StressMain {
  private StressMain() {}

  /** Runs once. */
  public static void main(String[] args) throws InterruptedException {
    if (args.length > 0 && (args[0].equals("--help") || args[0].equals("-h"))) {
      System.out.print(StressOptions.USAGE);
      return;
    }
    StressOptions options;
    try {
      options = StressOptions.parse(args);
    } catch (IllegalArgumentException e) {
      System.err.println("stress: " + e.getMessage());
      System.err.print(StressOptions.USAGE);
      System.exit(2);
      return;
    }
    StressRun run = StressRun.of(options);
    AtomicBoolean finished = new AtomicBoolean();
    Thread whenStopped =
        new Thread(
            () -> {
              run.close();
              if (!finished.get()) {
                System.out.println("stress: FAILED stopped before its end");
              }
            },
            "close-peers");
    Runtime.getRuntime().addShutdownHook(whenStopped);
    boolean ok = run.run();
    finished.set(true);
    System.exit(ok ? 0 : 1);
  }
}
