package dev.mooncake4j.examples.jlama.convert;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

class ModelConverterTest {
  @TempDir Path temp;

  private Path gguf(byte[] bytes) throws IOException {
    return Files.write(temp.resolve("tiny.gguf"), bytes);
  }

  private static TinyGguf tiny() {
    byte[] rows = new byte[0];
    for (int row = 0; row < 8; row++) {
      float[] floats = new float[32];
      Arrays.fill(floats, row);
      rows = TinyGguf.join(rows, TinyGguf.floats(floats));
    }
    return new TinyGguf()
        .text("general.architecture", "llama")
        .integer("llama.block_count", 1)
        .integer("llama.context_length", 64)
        .integer("llama.embedding_length", 32)
        .integer("llama.feed_forward_length", 32)
        .integer("llama.attention.head_count", 2)
        .integer("llama.attention.head_count_kv", 1)
        .decimal("llama.rope.freq_base", 100000f)
        .decimal("llama.attention.layer_norm_rms_epsilon", 1e-5f)
        .text("tokenizer.ggml.model", "gpt2")
        .texts("tokenizer.ggml.tokens", "<end>", "a", "Ġb", "aĠb")
        .integers("tokenizer.ggml.token_type", 3, 1, 1, 4)
        .texts("tokenizer.ggml.merges", "a Ġb")
        .integer("tokenizer.ggml.bos_token_id", 1)
        .integer("tokenizer.ggml.eos_token_id", 0)
        .tensor("token_embd.weight", 8, TinyGguf.join(q80(0.5f), q80(2f)), 32, 2)
        .tensor("output_norm.weight", 0, TinyGguf.floats(new float[32]), 32)
        .tensor("blk.0.attn_q.weight", 0, rows, 32, 8)
        .tensor("blk.0.attn_k.weight", 0, rows, 32, 8)
        .tensor("blk.0.ffn_up.weight", 3, TinyGguf.q41(0.25f, -1f), 32, 1);
  }

  private static byte[] q80(float scale) {
    return TinyGguf.q80(scale);
  }

  private Path converted() throws IOException {
    Path folder = temp.resolve("models/tiny");
    ModelConverter.convert(gguf(tiny().bytes()), folder);
    return folder;
  }

  private static float[] tensor(Path folder, String name, int... shape) throws IOException {
    byte[] file = Files.readAllBytes(folder.resolve("model.safetensors"));
    ByteBuffer bytes = ByteBuffer.wrap(file).order(ByteOrder.LITTLE_ENDIAN);
    int header = Math.toIntExact(bytes.getLong(0));
    JsonNode info =
        JsonMapper.shared().readTree(new String(file, 8, header, StandardCharsets.UTF_8)).get(name);
    assertThat(info.get("dtype").asString()).isEqualTo("F32");
    assertThat(info.get("shape").valueStream().mapToInt(JsonNode::asInt).toArray())
        .containsExactly(shape);
    int from = info.get("data_offsets").get(0).asInt();
    int to = info.get("data_offsets").get(1).asInt();
    float[] floats = new float[(to - from) / 4];
    bytes
        .position(8 + header + from)
        .slice()
        .order(ByteOrder.LITTLE_ENDIAN)
        .asFloatBuffer()
        .get(floats);
    return floats;
  }

  @Test
  void numbersAreDecoded() throws IOException {
    Path folder = converted();
    float[] embedding = tensor(folder, "model.embed_tokens.weight", 2, 32);
    assertThat(embedding[0]).isEqualTo(-8f);
    assertThat(embedding[31]).isEqualTo(7.5f);
    assertThat(embedding[32 + 31]).isEqualTo(30f);
    float[] up = tensor(folder, "model.layers.0.mlp.up_proj.weight", 1, 32);
    assertThat(up[3]).isEqualTo(0.25f * 3 - 1);
    assertThat(up[16]).isEqualTo(-1f);
    assertThat(up[31]).isEqualTo(0.25f * 15 - 1);
    assertThat(tensor(folder, "model.norm.weight", 32)).containsOnly(0f);
  }

  /** Each row of the tiny q and k holds its own number. */
  @Test
  void rowsThatRotateTogetherAreHalfAHeadApart() throws IOException {
    Path folder = converted();
    float[] q = tensor(folder, "model.layers.0.self_attn.q_proj.weight", 8, 32);
    float[] k = tensor(folder, "model.layers.0.self_attn.k_proj.weight", 8, 32);
    assertThat(firstOfRows(q)).containsExactly(0, 2, 1, 3, 4, 6, 5, 7);
    assertThat(firstOfRows(k)).containsExactly(0, 2, 4, 6, 1, 3, 5, 7);
  }

  private static float[] firstOfRows(float[] tensor) {
    float[] first = new float[tensor.length / 32];
    for (int row = 0; row < first.length; row++) {
      first[row] = tensor[row * 32];
    }
    return first;
  }

  @Test
  void configurationAndTokenizerAreWrittenOut() throws IOException {
    Path folder = converted();
    JsonNode config = JsonMapper.shared().readTree(folder.resolve("config.json"));
    assertThat(config.get("rms_norm_eps").asDouble()).isEqualTo(1e-5);
    assertThat(config.get("rope_theta").asDouble()).isEqualTo(100000.0);
    assertThat(config.get("num_key_value_heads").asInt()).isEqualTo(1);
    assertThat(config.get("vocab_size").asInt()).isEqualTo(4);
    assertThat(config.get("tie_word_embeddings").asBoolean()).isTrue();
    JsonNode tokenizer = JsonMapper.shared().readTree(folder.resolve("tokenizer.json"));
    assertThat(tokenizer.get("model").get("vocab").get("Ġb").asInt()).isEqualTo(2);
    assertThat(tokenizer.get("model").get("merges").get(0).asString()).isEqualTo("a Ġb");
    assertThat(tokenizer.get("added_tokens").size()).isEqualTo(2);
    assertThat(tokenizer.get("added_tokens").get(0).get("special").asBoolean()).isTrue();
    assertThat(tokenizer.get("added_tokens").get(1).get("special").asBoolean()).isFalse();
  }

  @Test
  void aFolderThatIsThereIsLeftAsItIs() throws IOException {
    Path folder = Files.createDirectories(temp.resolve("models/tiny"));
    ModelConverter.convert(temp.resolve("no-such.gguf"), folder);
    assertThat(folder).isEmptyDirectory();
  }

  @Test
  void aFileCutShortLeavesNothingBehind() throws IOException {
    byte[] whole = tiny().bytes();
    for (int length : new int[] {0, 10, 40, 400, whole.length - 1}) {
      Path file = gguf(Arrays.copyOf(whole, length));
      assertThatThrownBy(() -> ModelConverter.convert(file, temp.resolve("models/tiny")))
          .isInstanceOf(IOException.class)
          .hasMessageContaining("tiny.gguf")
          .hasMessageContaining("fetch it again");
      try (Stream<Path> left = Files.list(temp.resolve("models"))) {
        assertThat(left).isEmpty();
      }
    }
  }

  @Test
  void whatIsNotKnownIsRefusedByName() throws IOException {
    Path otherTensor =
        gguf(tiny().tensor("blk.0.attn_bias.weight", 0, TinyGguf.floats(1), 1).bytes());
    assertThatThrownBy(() -> ModelConverter.convert(otherTensor, temp.resolve("models/tiny")))
        .hasMessageContaining("tensor=blk.0.attn_bias.weight");
    Path otherType = gguf(tiny().tensor("output.weight", 12, new byte[144], 256).bytes());
    assertThatThrownBy(() -> ModelConverter.convert(otherType, temp.resolve("models/tiny")))
        .hasMessageContaining("tensor=output.weight has type=12");
  }
}
