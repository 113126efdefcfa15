package dev.mooncake4j.connector;

import java.util.List;

/** The configuration is refused; all its problems are in one message. */
public final class ConfigurationException extends KvConnectorException {
  private static final long serialVersionUID = 1L;

  private final String[] problems;

  /** With every problem found, at least one. */
  public ConfigurationException(List<String> problems) {
    super(
        "configuration refused, problems=" + problems.size() + ": " + String.join("; ", problems));
    this.problems = problems.toArray(new String[0]);
  }

  /** Each problem, one text each. */
  public List<String> problems() {
    return List.of(problems);
  }
}
