package dev.mooncake4j.examples.jlama.convert;

import dev.mooncake4j.examples.jlama.convert.GgufFile.Tensor;
import java.io.IOException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Stream;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;

/**
 * Converts a GGUF file of the llama architecture with a GPT-2 tokenizer into a folder in the layout
 * of Hugging Face: config.json, tokenizer.json, tokenizer_config.json and model.safetensors, all
 * weights as single floats.
 */
public final class ModelConverter {
  private static final JsonMapper MAPPER =
      JsonMapper.builder().enable(SerializationFeature.INDENT_OUTPUT).build();

  /** llama.cpp's names of the parts of a layer. */
  private static final Map<String, String> LAYER_PARTS =
      Map.of(
          "attn_norm", "input_layernorm",
          "attn_q", "self_attn.q_proj",
          "attn_k", "self_attn.k_proj",
          "attn_v", "self_attn.v_proj",
          "attn_output", "self_attn.o_proj",
          "ffn_norm", "post_attention_layernorm",
          "ffn_gate", "mlp.gate_proj",
          "ffn_up", "mlp.up_proj",
          "ffn_down", "mlp.down_proj");

  private static final Map<String, String> TOP =
      Map.of(
          "token_embd.weight", "model.embed_tokens.weight",
          "output_norm.weight", "model.norm.weight",
          "output.weight", "lm_head.weight");

  private ModelConverter() {}

  /**
   * Converts {@code [--progress] GGUF FOLDER}; does nothing where the folder is there. Exit code 1
   * with one line on standard error if it cannot.
   */
  public static void main(String[] args) {
    List<String> words = List.of(args);
    boolean progress = words.contains("--progress");
    List<String> paths = words.stream().filter(w -> !w.equals("--progress")).toList();
    if (paths.size() != 2) {
      System.err.println("model: give [--progress] GGUF FOLDER");
      System.exit(2);
    }
    try {
      convert(
          Path.of(paths.get(0)),
          Path.of(paths.get(1)),
          progress ? Progress.on(System.err) : Progress.NONE);
    } catch (IOException e) {
      System.err.println(
          "model: cannot convert gguf=" + paths.get(0) + " into folder=" + paths.get(1) + ": " + e);
      System.exit(1);
    }
  }

  /**
   * Converts a file, unless the folder is there already. Blocks for some seconds.
   *
   * <p>The folder appears in one rename, so that one that is there is whole; several processes may
   * do this at once.
   *
   * @throws IOException if the file cannot be read or has something that is not converted here, or
   *     the folder cannot be written
   */
  public static void convert(Path gguf, Path folder) throws IOException {
    convert(gguf, folder, Progress.NONE);
  }

  static void convert(Path gguf, Path folder, Progress progress) throws IOException {
    if (Files.isDirectory(folder)) {
      return;
    }
    Path target = folder.toAbsolutePath();
    Path parent = target.getParent();
    if (parent == null) {
      throw new IOException("folder=" + folder + " has no parent");
    }
    Files.createDirectories(parent);
    Path work = Files.createTempDirectory(parent, ".converting-");
    try {
      try (GgufFile file = GgufFile.open(gguf)) {
        write(file, work, progress);
      }
      Files.move(work, target, StandardCopyOption.ATOMIC_MOVE);
    } catch (DirectoryNotEmptyException | FileAlreadyExistsException e) {
      // Another process was faster, and its folder is as good.
      if (!Files.isDirectory(folder)) {
        throw e;
      }
    } finally {
      deleteTree(work);
    }
  }

  private static void write(GgufFile gguf, Path folder, Progress progress) throws IOException {
    String architecture = gguf.text("general.architecture");
    String tokenizer = gguf.text("tokenizer.ggml.model");
    if (!architecture.equals("llama") || !tokenizer.equals("gpt2")) {
      throw new IOException(
          "architecture="
              + architecture
              + " with tokenizer="
              + tokenizer
              + " is not converted here: llama with gpt2 is");
    }
    SortedMap<String, SafetensorsWriter.Source> tensors = tensors(gguf);
    writeJson(folder.resolve("config.json"), config(gguf, !tensors.containsKey("lm_head.weight")));
    writeJson(folder.resolve("tokenizer.json"), TokenizerFiles.tokenizer(gguf));
    writeJson(folder.resolve("tokenizer_config.json"), TokenizerFiles.config(gguf));
    new SafetensorsWriter(tensors, progress).write(folder.resolve("model.safetensors"));
  }

  private static SortedMap<String, SafetensorsWriter.Source> tensors(GgufFile gguf)
      throws IOException {
    int heads = gguf.integer("llama.attention.head_count");
    int kvHeads = gguf.integer("llama.attention.head_count_kv");
    SortedMap<String, SafetensorsWriter.Source> tensors = new TreeMap<>();
    for (Tensor tensor : gguf.tensors().values()) {
      String top = TOP.get(tensor.name());
      if (top != null) {
        tensors.put(top, new SafetensorsWriter.Source(tensor, 0));
        continue;
      }
      String[] words = tensor.name().split("\\.", -1);
      String part = words.length == 4 && words[0].equals("blk") ? LAYER_PARTS.get(words[2]) : null;
      if (part == null || !words[3].equals("weight")) {
        throw new IOException("tensor=" + tensor.name() + " is not one of this architecture");
      }
      int rotary =
          switch (words[2]) {
            case "attn_q" -> heads;
            case "attn_k" -> kvHeads;
            default -> 0;
          };
      if (rotary < 0 || (rotary > 0 && tensor.rows() % (2 * rotary) != 0)) {
        throw new IOException(
            "tensor=" + tensor.name() + " has rows=" + tensor.rows() + " for heads=" + rotary);
      }
      tensors.put(
          "model.layers." + words[1] + "." + part + ".weight",
          new SafetensorsWriter.Source(tensor, rotary));
    }
    return tensors;
  }

  private static Map<String, Object> config(GgufFile gguf, boolean tied) throws IOException {
    Map<String, Object> config = new LinkedHashMap<>();
    config.put("architectures", List.of("LlamaForCausalLM"));
    config.put("model_type", "llama");
    config.put("hidden_act", "silu");
    config.put("torch_dtype", "float32");
    config.put("hidden_size", gguf.integer("llama.embedding_length"));
    config.put("intermediate_size", gguf.integer("llama.feed_forward_length"));
    config.put("num_hidden_layers", gguf.integer("llama.block_count"));
    config.put("num_attention_heads", gguf.integer("llama.attention.head_count"));
    config.put("num_key_value_heads", gguf.integer("llama.attention.head_count_kv"));
    config.put("max_position_embeddings", gguf.integer("llama.context_length"));
    // A single float in the file: 1e-5 there is 1e-5 here, not 9.99999974e-6.
    config.put("rms_norm_eps", shortest(gguf.decimal("llama.attention.layer_norm_rms_epsilon")));
    config.put("rope_theta", shortest(gguf.decimal("llama.rope.freq_base")));
    config.put("vocab_size", gguf.texts("tokenizer.ggml.tokens").size());
    config.put("bos_token_id", gguf.integer("tokenizer.ggml.bos_token_id"));
    config.put("eos_token_id", gguf.integer("tokenizer.ggml.eos_token_id"));
    config.put("tie_word_embeddings", tied);
    config.put("attention_bias", false);
    config.put("mlp_bias", false);
    return config;
  }

  private static double shortest(float value) {
    return Double.parseDouble(Float.toString(value));
  }

  private static void writeJson(Path path, Map<String, ?> json) throws IOException {
    Files.writeString(path, MAPPER.writeValueAsString(json));
  }

  private static void deleteTree(Path root) throws IOException {
    if (!Files.exists(root)) {
      return;
    }
    try (Stream<Path> walk = Files.walk(root)) {
      for (Path path : walk.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(path);
      }
    }
  }
}
