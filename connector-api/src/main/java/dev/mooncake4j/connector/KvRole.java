package dev.mooncake4j.connector;

/** What an engine does with KV blocks: send them, receive them, or both. */
public enum KvRole {
  /** A prefiller: computes KV for a prompt and pushes it into a decoder's memory. */
  PRODUCER("kv_producer"),
  /** A decoder: asks for KV and is told when it is in place. */
  CONSUMER("kv_consumer"),
  /** Either, request by request. */
  BOTH("kv_both");

  private final String configName;

  KvRole(String configName) {
    this.configName = configName;
  }

  /** The value of {@code kv_role} in {@code --kv-transfer-config}. */
  public String configName() {
    return configName;
  }

  /** Whether this role sends blocks. */
  public boolean isProducer() {
    return this != CONSUMER;
  }

  /** Whether this role receives blocks. */
  public boolean isConsumer() {
    return this != PRODUCER;
  }

  /**
   * The role with the given {@code kv_role} value.
   *
   * @throws IllegalArgumentException if there is none
   */
  public static KvRole ofConfigName(String name) {
    for (KvRole role : values()) {
      if (role.configName.equals(name)) {
        return role;
      }
    }
    throw new IllegalArgumentException(
        "kv_role=" + name + " is not one of kv_producer, kv_consumer, kv_both");
  }
}
