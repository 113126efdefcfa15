package dev.mooncake4j.examples.jlama.server;

import com.github.tjake.jlama.model.AbstractModel;
import com.github.tjake.jlama.model.ModelSupport;
import com.github.tjake.jlama.safetensors.DType;
import com.github.tjake.jlama.safetensors.tokenizer.Tokenizer;
import com.github.tjake.jlama.tensor.AbstractTensor;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

/** A model of Jlama's, loaded from a folder in the layout of Hugging Face. */
final class JlamaModel implements LanguageModel {
  private final AbstractModel model;
  private final Tokenizer tokenizer;
  private final PageFolder pages;
  private final AbstractTensor<?, ?> logits;

  private JlamaModel(AbstractModel model, PageFolder pages) {
    this.model = model;
    this.tokenizer = model.getTokenizer();
    this.pages = pages;
    this.logits = model.makeDenseTensor(1, model.getConfig().vocabularySize);
  }

  /**
   * Loads a model; blocks for a second or two.
   *
   * @param threads that Jlama computes with
   * @throws IOException if the folder is not there or cannot be loaded
   */
  static JlamaModel load(Path folder, int threads) throws IOException {
    if (!Files.isRegularFile(folder.resolve("config.json"))) {
      throw new IOException("model=" + folder + " has no config.json: scripts/model.sh makes one");
    }
    PageFolder pages = PageFolder.create(Path.of(System.getProperty("java.io.tmpdir")));
    try {
      // Single floats all through: with BF16 as working type this model talks nonsense.
      AbstractModel model =
          ModelSupport.loadModel(
              folder.toFile(),
              pages.path().toFile(),
              DType.F32,
              DType.F32,
              Optional.empty(),
              Optional.of(threads));
      return new JlamaModel(model, pages);
    } catch (RuntimeException e) {
      throw new IOException("model=" + folder + " cannot be loaded: " + e, e);
    }
  }

  @Override
  public int vocabularySize() {
    return model.getConfig().vocabularySize;
  }

  @Override
  public int layers() {
    return model.getConfig().numberOfLayers;
  }

  @Override
  public int rowBytes() {
    return model.getConfig().kvLength * Float.BYTES;
  }

  @Override
  public int contextLength() {
    return model.getConfig().contextLength;
  }

  @Override
  public int[] encode(String text) {
    long[] ids;
    synchronized (tokenizer) {
      ids = tokenizer.encode(text);
    }
    int[] tokens = new int[ids.length];
    for (int i = 0; i < ids.length; i++) {
      tokens[i] = Math.toIntExact(ids[i]);
    }
    return tokens;
  }

  /** Jlama gives one character for each byte of a token, and leaves putting them together to us. */
  @Override
  public byte[] bytesOf(int token) {
    synchronized (tokenizer) {
      if (tokenizer.getModel().isSpecialToken(token)) {
        return new byte[0];
      }
      return tokenizer.decode(token).getBytes(StandardCharsets.ISO_8859_1);
    }
  }

  @Override
  public boolean isEnd(int token) {
    return model.getConfig().eosTokens.contains(token);
  }

  @Override
  public Session openSession() {
    return new JlamaSession(this);
  }

  AbstractModel model() {
    return model;
  }

  /** Where Jlama makes the files behind its pages. */
  PageFolder pages() {
    return pages;
  }

  /** The most probable token after a row of the last layer's output. */
  int next(AbstractTensor<?, ?> row) {
    return model.sample(row, 0f, 0f, logits);
  }
}
