package dev.mooncake4j.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

/** What a registration may hold. */
class RegisterRequestTest {
  private static RegisterRequest of(String engine, int dp, int tp, int pp, String addr) {
    return new RegisterRequest(engine, dp, tp, pp, addr);
  }

  @Test
  void everyFieldIsCheckedByName() {
    assertRefused("engine_id", "", 0, 0, 0, "tcp://h:1");
    assertRefused("engine_id", "x".repeat(100_000), 0, 0, 0, "tcp://h:1");
    assertRefused("engine_id", "\ud83d", 0, 0, 0, "tcp://h:1");
    assertRefused("engine_id", "\ude00\ud83d", 0, 0, 0, "tcp://h:1");
    assertRefused("engine_id", "a\ud83db", 0, 0, 0, "tcp://h:1");
    assertRefused("dp_rank", "e", -1, 0, 0, "tcp://h:1");
    assertRefused("tp_rank", "e", 0, Integer.MAX_VALUE, 0, "tcp://h:1");
    assertRefused("pp_rank", "e", 0, 0, -7, "tcp://h:1");
    assertRefused("addr", "e", 0, 0, 0, "");
    assertRefused("addr", "e", 0, 0, 0, "\ud800");
  }

  private static void assertRefused(
      String name, String engine, int dp, int tp, int pp, String addr) {
    assertThatThrownBy(() -> of(engine, dp, tp, pp, addr))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith(name);
  }

  @Test
  void anyTextThatUtf8CanCarryIsTaken() {
    assertThat(of("\ud83d\ude00 engine", 3, 2, 1, "tcp://h:1").engineId()).contains("engine");
  }
}
