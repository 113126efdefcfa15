package dev.mooncake4j.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.bootstrap.QueryAnswer.EngineEntry;
import dev.mooncake4j.bootstrap.QueryJson.MalformedAnswerException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class QueryJsonTest {

  private static QueryAnswer read(String json) throws MalformedAnswerException {
    return QueryJson.read(json.getBytes(StandardCharsets.UTF_8));
  }

  @Test
  void readsWhatVllmAnswers() throws MalformedAnswerException {
    String body = Resources.capture("http_variants.json").at("/query_after/body").stringValue();
    assertThat(read(body))
        .isEqualTo(
            new QueryAnswer(
                Map.of(
                    0,
                    new EngineEntry("engine-P", Map.of(0, Map.of(0, "tcp://127.0.0.1:37367"))),
                    10,
                    new EngineEntry("engine-2", Map.of(1, Map.of(0, "tcp://127.0.0.1:2"))))));
    assertThat(new String(QueryJson.write(read(body)), StandardCharsets.UTF_8)).isEqualTo(body);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{}}}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{\"0\":{}}}}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{},\"dcp_size\":[[{}]],\"x\":null}}",
        " {\"1000000\":{\"engine_id\":\"\\u00e9\",\"worker_addr\":{}}} "
      })
  void takesWhatALaterReleaseMayAdd(String json) throws MalformedAnswerException {
    read(json);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        " ",
        "null",
        "[]",
        "1",
        "\"x\"",
        "<html>",
        "{",
        "{} {}",
        "{\"0\":null}",
        "{\"0\":[]}",
        "{\"0\":{}}",
        "{\"0\":{\"engine_id\":\"e\"}}",
        "{\"0\":{\"worker_addr\":{}}}",
        "{\"0\":{\"engine_id\":1,\"worker_addr\":{}}}",
        "{\"0\":{\"engine_id\":null,\"worker_addr\":{}}}",
        "{\"0\":{\"engine_id\":\"\",\"worker_addr\":{}}}",
        "{\"0\":{\"engine_id\":\"\\ud83d\",\"worker_addr\":{}}}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{\"0\":{\"0\":\"\\ude00\"}}}}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":[]}}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{\"0\":\"tcp://a:1\"}}}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{\"0\":{\"0\":1}}}}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{\"0\":{\"0\":null}}}}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{\"0\":{\"x\":\"a\"}}}}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{\"0\":{\"-1\":\"a\"}}}}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{\"00\":{\"0\":\"a\"}}}}",
        "{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{\"\":{\"0\":\"a\"}}}}",
        "{\"+0\":{\"engine_id\":\"e\",\"worker_addr\":{}}}",
        "{\"1000001\":{\"engine_id\":\"e\",\"worker_addr\":{}}}",
        "{\"99999999999\":{\"engine_id\":\"e\",\"worker_addr\":{}}}",
        "{\"\\u0660\":{\"engine_id\":\"e\",\"worker_addr\":{}}}",
        "{\"0\":{\"engine_id\":\"a\",\"engine_id\":\"b\",\"worker_addr\":{}}}",
        "{\"0\":{\"engine_id\":\"a\",\"worker_addr\":{}},\"0\":{\"engine_id\":\"b\",\"worker_addr\":{}}}"
      })
  void refusesWhatIsNotAnAnswer(String json) {
    assertThatThrownBy(() -> read(json)).isInstanceOf(MalformedAnswerException.class);
  }

  @Test
  void refusesDeepNestingAlsoInUnknownFields() {
    String deep = "[".repeat(10_000) + "]".repeat(10_000);
    assertThatThrownBy(() -> read(deep)).isInstanceOf(MalformedAnswerException.class);
    assertThatThrownBy(
            () -> read("{\"0\":{\"engine_id\":\"e\",\"worker_addr\":{},\"x\":" + deep + "}}"))
        .isInstanceOf(MalformedAnswerException.class);
  }

  @Test
  void anyAnswerSurvivesTheWayThereAndBackAndCostsWhatIsCounted() throws Exception {
    long seed = System.nanoTime();
    Random random = new Random(seed);
    for (int i = 0; i < 500; i++) {
      QueryAnswer answer = randomAnswer(random);
      byte[] json = QueryJson.write(answer);
      assertThat(QueryJson.read(json)).as("seed=%d, i=%d", seed, i).isEqualTo(answer);
      int cost =
          QueryJson.EMPTY_COST
              + answer.engines().values().stream().mapToInt(QueryJson::costOf).sum();
      assertThat(cost).as("seed=%d, i=%d", seed, i).isGreaterThanOrEqualTo(json.length);
    }
  }

  @Test
  void anyDamageIsTakenOrRefusedAndNothingElse() {
    long seed = System.nanoTime();
    Random random = new Random(seed);
    for (int i = 0; i < 5000; i++) {
      byte[] json = QueryJson.write(randomAnswer(random));
      for (int k = random.nextInt(3); k >= 0; k--) {
        json[random.nextInt(json.length)] =
            (byte)
                (random.nextBoolean()
                    ? random.nextInt(256)
                    : "{}[]\":,0tn\\".charAt(random.nextInt(11)));
      }
      byte[] cut = random.nextInt(4) == 0 ? Arrays.copyOf(json, random.nextInt(json.length)) : json;
      try {
        assertThat(QueryJson.read(cut)).isNotNull();
      } catch (MalformedAnswerException e) {
        assertThat(e.getMessage()).as("seed=%d, i=%d", seed, i).isNotBlank();
      } catch (RuntimeException e) {
        throw new AssertionError("seed=" + seed + ", i=" + i, e);
      }
    }
  }

  private static QueryAnswer randomAnswer(Random random) {
    Map<Integer, EngineEntry> engines = new HashMap<>();
    for (int dp = random.nextInt(4); dp > 0; dp--) {
      Map<Integer, Map<Integer, String>> workers = new HashMap<>();
      for (int tp = random.nextInt(4); tp > 0; tp--) {
        Map<Integer, String> stages = new HashMap<>();
        for (int pp = random.nextInt(3); pp > 0; pp--) {
          stages.put(rank(random), text(random));
        }
        workers.put(rank(random), stages);
      }
      engines.put(rank(random), new EngineEntry(text(random), workers));
    }
    return new QueryAnswer(engines);
  }

  private static int rank(Random random) {
    return random.nextBoolean() ? random.nextInt(10) : random.nextInt(RegisterRequest.MAX_RANK + 1);
  }

  private static String text(Random random) {
    StringBuilder text = new StringBuilder();
    for (int left = random.nextInt(40); left >= 0; left--) {
      switch (random.nextInt(4)) {
        case 0 -> text.append((char) random.nextInt(0x80));
        case 1 -> text.append("\"\\/\u0000\u001f\u007f".charAt(random.nextInt(6)));
        case 2 -> text.append((char) (0x80 + random.nextInt(0xd000)));
        default -> text.appendCodePoint(0x10000 + random.nextInt(0x10000));
      }
    }
    return text.toString();
  }
}
