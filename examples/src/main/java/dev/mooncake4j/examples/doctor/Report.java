package dev.mooncake4j.examples.doctor;

import java.io.PrintWriter;

/** What was found, a line each, written as it is found: where a check hangs, its heading shows. */
final class Report {
  private final PrintWriter out;
  private int problems;

  Report(PrintWriter out) {
    this.out = out;
  }

  /** What follows is about this. */
  void section(String name) {
    print(name);
  }

  /** As it should be. */
  void ok(String text) {
    print("  ok       " + shown(text));
  }

  /** Worth knowing, and no fault. */
  void note(String text) {
    print("  note     " + shown(text));
  }

  /**
   * A fault.
   *
   * @param next what to do about it
   */
  void problem(String text, String next) {
    problems++;
    print("  PROBLEM  " + shown(text));
    print("           next: " + next);
  }

  int problems() {
    return problems;
  }

  private void print(String line) {
    out.println(line);
    out.flush();
  }

  /** Of a text that may be a peer's. */
  private static String shown(String text) {
    return text.replaceAll("\\p{Cntrl}", " ");
  }
}
