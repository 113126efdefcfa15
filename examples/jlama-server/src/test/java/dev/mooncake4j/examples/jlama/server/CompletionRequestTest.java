package dev.mooncake4j.examples.jlama.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CompletionRequestTest {
  private static CompletionRequest parse(String json) throws BadRequest {
    return CompletionRequest.parse(
        json.replace('\'', '"').getBytes(StandardCharsets.UTF_8), text -> text.chars().toArray());
  }

  @Test
  void whatIsNotSaidHasVllmsDefault() throws BadRequest {
    CompletionRequest request = parse("{'prompt': 'ab'}");
    assertThat(request.prompt()).containsExactly('a', 'b');
    assertThat(request.maxTokens()).isEqualTo(16);
    assertThat(request.stream()).isFalse();
    assertThat(request.transfer().doRemotePrefill()).isFalse();
  }

  @Test
  void whatAProxySendsIsRead() throws BadRequest {
    CompletionRequest request =
        parse(
            "{'model': 'm', 'prompt': [1, 2], 'max_tokens': 1, 'min_tokens': 1, 'stream': true,"
                + " 'stream_options': {'include_usage': true}, 'temperature': 0, 'n': 1,"
                + " 'kv_transfer_params': {'do_remote_decode': false, 'do_remote_prefill': true,"
                + " 'transfer_id': 'x', 'remote_engine_id': 'p', 'remote_bootstrap_addr':"
                + " 'http://p:1', 'remote_port': 5}}");
    assertThat(request.prompt()).containsExactly(1, 2);
    assertThat(request.stream()).isTrue();
    assertThat(request.includeUsage()).isTrue();
    assertThat(request.minTokens()).isEqualTo(1);
    assertThat(request.transfer().transferId()).isEqualTo("x");
    assertThat(request.transfer().remoteEngineId()).isEqualTo("p");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "[]",
        "{}",
        "{'prompt': ''}",
        "{'prompt': []}",
        "{'prompt': ['a', 'b']}",
        "{'prompt': [1.5]}",
        "{'prompt': 'é'}",
        "{'prompt': 'a', 'temperature': 0.7}",
        "{'prompt': 'a', 'n': 2}",
        "{'prompt': 'a', 'stop': ['x']}",
        "{'prompt': 'a', 'echo': true}",
        "{'prompt': 'a', 'max_tokens': 0}",
        "{'prompt': 'a', 'max_tokens': '5'}",
        "{'prompt': 'a', 'stream': 1}",
        "{'prompt': 'a', 'kv_transfer_params': []}",
        "{'prompt': 'a', 'kv_transfer_params': {'transfer_id': 5}}"
      })
  void whatIsNotServedIsRefused(String json) {
    assertThatThrownBy(() -> parse(json)).isInstanceOf(BadRequest.class);
  }

  @Test
  void textComesInWholeCharacters() {
    TextStream text = new TextStream();
    byte[] euro = "€".getBytes(StandardCharsets.UTF_8);
    assertThat(text.add(new byte[] {'a', euro[0]})).isEqualTo("a");
    assertThat(text.add(new byte[] {euro[1]})).isEmpty();
    assertThat(text.add(new byte[] {euro[2], 'b'})).isEqualTo("€b");
    assertThat(text.add(new byte[] {euro[0]})).isEmpty();
    assertThat(text.end()).isEqualTo("\ufffd");
  }
}
