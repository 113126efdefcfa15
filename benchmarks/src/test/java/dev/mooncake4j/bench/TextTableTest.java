package dev.mooncake4j.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import java.util.List;
import org.junit.jupiter.api.Test;

class TextTableTest {
  @Test
  void columnsAreAsWideAsTheirWidestCell() {
    TextTable table = new TextTable("name", "ms");
    table.add(List.of("a", "12345"));
    table.add(List.of("longer", "1"));

    assertThat(table)
        .hasToString(
            """
            name       ms
            a       12345
            longer      1
            """);
  }

  @Test
  void aRowHasACellForEachColumn() {
    TextTable table = new TextTable("one", "two");

    assertThatIllegalArgumentException().isThrownBy(() -> table.add(List.of("alone")));
  }

  @Test
  void numbersHaveThreeDigitsThatMeanSomething() {
    assertThat(TextTable.number(1234.5)).isEqualTo("1235");
    assertThat(TextTable.number(12.345)).isEqualTo("12.3");
    assertThat(TextTable.number(1.2345)).isEqualTo("1.23");
    assertThat(TextTable.number(-0.5)).isEqualTo("-0.500");
    assertThat(TextTable.number(null)).isEqualTo("-");
  }
}
