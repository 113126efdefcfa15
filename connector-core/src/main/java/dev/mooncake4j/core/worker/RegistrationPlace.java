package dev.mooncake4j.core.worker;

/**
 * The bootstrap server at which the prefiller ranks of a process register.
 *
 * @param address its URL
 * @param ownProcess whether it is this process's own, so that it forgets no rank that lives
 */
public record RegistrationPlace(String address, boolean ownProcess) {

  /** A server of this process. */
  public static RegistrationPlace here(String address) {
    return new RegistrationPlace(address, true);
  }

  /** A server of another process, which may be restarted while ranks live on. */
  public static RegistrationPlace elsewhere(String address) {
    return new RegistrationPlace(address, false);
  }
}
