package dev.mooncake4j.connector;

import java.util.List;

/**
 * The configuration is refused; all its problems are in one message.
 *
 * <p>Problems repeat what was given, which may be anything: each is told on one line, control
 * characters as {@code ?}, and the middle of a very long one is left out.
 */
public final class ConfigurationException extends KvConnectorException {
  private static final long serialVersionUID = 1L;

  /** Characters of a problem's beginning, and of its end, that are kept at least. */
  private static final int KEPT = 400;

  private final String[] problems;

  /** With every problem found, at least one. */
  public ConfigurationException(List<String> problems) {
    this(problems.stream().map(ConfigurationException::line).toArray(String[]::new));
  }

  private ConfigurationException(String[] problems) {
    super(
        "configuration refused, problems=" + problems.length + ": " + String.join("; ", problems));
    this.problems = problems;
  }

  private static String line(String problem) {
    String told =
        problem.length() <= 2 * KEPT
            ? problem
            : problem.substring(0, KEPT) + "…" + problem.substring(problem.length() - KEPT);
    StringBuilder line = new StringBuilder(told);
    for (int i = 0; i < line.length(); i++) {
      if (Character.isISOControl(line.charAt(i))) {
        line.setCharAt(i, '?');
      }
    }
    return line.toString();
  }

  /** Each problem, one text each. */
  public List<String> problems() {
    return List.of(problems);
  }
}
