package dev.mooncake4j.engine.load;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;

/** A Python in the process is found among what is mapped. */
class PythonInProcessTest {

  @Test
  void findsTheFileOfAMappedPython() {
    assertThat(
            PythonInProcess.find(
                List.of(
                    "7f0000000000-7f0000001000 r--p 00000000 fe:00 12 /usr/lib/libc.so.6",
                    "7f1000000000-7f1000001000 r-xp 00000000 fe:00 13 /opt/py/lib/libpython3.12.so.1.0",
                    "7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0 [stack]")))
        .isEqualTo("/opt/py/lib/libpython3.12.so.1.0");
  }

  @Test
  void thereIsNoneInThisProcess() {
    assertThat(PythonInProcess.find()).isNull();
  }
}
