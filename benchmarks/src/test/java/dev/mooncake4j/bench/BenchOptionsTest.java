package dev.mooncake4j.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.mooncake4j.bench.BenchOptions.Part;
import org.assertj.core.api.ThrowableAssertAlternative;
import org.junit.jupiter.api.Test;

class BenchOptionsTest {
  @Test
  void withoutArgumentsAllIsMeasuredInFullButForVllm() {
    BenchOptions options = BenchOptions.parse();

    assertThat(options.parts()).containsExactly(Part.values());
    assertThat(options.rounds()).isEqualTo(9);
    assertThat(options.blocks()).containsExactly(1, 8, 64, 256, 2000);
    assertThat(options.vllmPython()).isNull();
  }

  @Test
  void whatIsGivenWinsOverQuick() {
    BenchOptions options =
        BenchOptions.parse("--blocks", "64", "--quick", "--only", "one-request", "--rounds", "12");

    assertThat(options.parts()).containsExactly(Part.ONE_REQUEST);
    assertThat(options.rounds()).isEqualTo(12);
    assertThat(options.blocks()).containsExactly(64);
    assertThat(BenchOptions.parse("--quick").rounds()).isLessThan(9);
  }

  @Test
  void wrongArgumentsAreNamed() {
    refused("--only", "everything")
        .withMessageContaining("everything")
        .withMessageContaining("many");
    refused("--rounds", "0").withMessageContaining("--rounds 0");
    refused("--blocks", "1,x").withMessageContaining("--blocks x");
    refused("--rounds").withMessageContaining("--rounds");
    refused("--fast", "1").withMessageContaining("--fast");
  }

  private static ThrowableAssertAlternative<IllegalArgumentException> refused(String... args) {
    return assertThatIllegalArgumentException().isThrownBy(() -> BenchOptions.parse(args));
  }
}
