package dev.mooncake4j.examples.jlama.convert;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The contents of tokenizer.json and tokenizer_config.json. */
final class TokenizerFiles {
  /** llama.cpp's numbers for a control token and for one that a user added. */
  private static final int CONTROL = 3;

  private static final int USER_DEFINED = 4;

  /** GGUF only names the rule ("smollm"): digits one by one, then GPT-2's words. */
  private static final String DIGIT = "\\p{N}";

  private static final String GPT2_WORDS =
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

  private TokenizerFiles() {}

  static Map<String, Object> tokenizer(GgufFile gguf) throws IOException {
    List<String> tokens = gguf.texts("tokenizer.ggml.tokens");
    Map<String, Object> root = new LinkedHashMap<>();
    root.put("version", "1.0");
    root.put("truncation", null);
    root.put("padding", null);
    root.put("added_tokens", addedTokens(tokens, gguf.integers("tokenizer.ggml.token_type")));
    root.put("normalizer", null);
    Map<String, Object> steps = new LinkedHashMap<>();
    steps.put("type", "Sequence");
    steps.put(
        "pretokenizers", List.of(split(DIGIT), split(GPT2_WORDS), byteLevel(false, true, false)));
    root.put("pre_tokenizer", steps);
    root.put("post_processor", null);
    root.put("decoder", byteLevel(true, true, true));
    root.put("model", bpe(tokens, gguf.texts("tokenizer.ggml.merges")));
    return root;
  }

  private static List<Map<String, Object>> addedTokens(List<String> tokens, List<Integer> types)
      throws IOException {
    if (types.size() != tokens.size()) {
      throw new IOException("token types=" + types.size() + " of tokens=" + tokens.size());
    }
    List<Map<String, Object>> added = new ArrayList<>();
    for (int id = 0; id < tokens.size(); id++) {
      int type = types.get(id);
      if (type == CONTROL || type == USER_DEFINED) {
        Map<String, Object> token = new LinkedHashMap<>();
        token.put("id", id);
        token.put("content", tokens.get(id));
        token.put("single_word", false);
        token.put("lstrip", false);
        token.put("rstrip", false);
        token.put("normalized", false);
        token.put("special", type == CONTROL);
        added.add(token);
      }
    }
    return added;
  }

  private static Map<String, Object> split(String regex) {
    Map<String, Object> split = new LinkedHashMap<>();
    split.put("type", "Split");
    split.put("pattern", Map.of("Regex", regex));
    split.put("behavior", "Isolated");
    split.put("invert", false);
    return split;
  }

  private static Map<String, Object> byteLevel(boolean prefix, boolean trim, boolean regex) {
    Map<String, Object> level = new LinkedHashMap<>();
    level.put("type", "ByteLevel");
    level.put("add_prefix_space", prefix);
    level.put("trim_offsets", trim);
    level.put("use_regex", regex);
    return level;
  }

  private static Map<String, Object> bpe(List<String> tokens, List<String> merges) {
    Map<String, Integer> vocabulary = new LinkedHashMap<>();
    for (int id = 0; id < tokens.size(); id++) {
      vocabulary.put(tokens.get(id), id);
    }
    Map<String, Object> model = new LinkedHashMap<>();
    model.put("type", "BPE");
    model.put("dropout", null);
    model.put("unk_token", null);
    model.put("continuing_subword_prefix", null);
    model.put("end_of_word_suffix", null);
    model.put("fuse_unk", false);
    model.put("byte_fallback", false);
    model.put("vocab", vocabulary);
    model.put("merges", merges);
    return model;
  }

  static Map<String, @Nullable Object> config(GgufFile gguf) throws IOException {
    List<String> tokens = gguf.texts("tokenizer.ggml.tokens");
    Map<String, @Nullable Object> config = new LinkedHashMap<>();
    config.put("bos_token", tokens.get(gguf.integer("tokenizer.ggml.bos_token_id")));
    config.put("eos_token", tokens.get(gguf.integer("tokenizer.ggml.eos_token_id")));
    config.put("chat_template", gguf.find("tokenizer.chat_template"));
    config.put("tokenizer_class", "PreTrainedTokenizerFast");
    return config;
  }
}
