package dev.mooncake4j.it;

import dev.mooncake4j.connector.ConnectorConfig;
import dev.mooncake4j.connector.KvCacheGroup;
import dev.mooncake4j.connector.KvCacheSpec;
import dev.mooncake4j.connector.KvRole;
import dev.mooncake4j.connector.RankLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The command line of {@link PeerMain}.
 *
 * @param role what the peer does
 * @param host address that it binds and advertises
 * @param engineId its engine id, or {@code null} for a random one
 * @param bootstrapPort port of its bootstrap server, 0 for any free one
 * @param bootstrapServerAddress {@code host:port} of a bootstrap server elsewhere, or {@code null}
 * @param layers layers of the whole model, of all pipeline stages
 * @param numBlocks blocks per layer
 * @param blockSize tokens per block
 * @param kvHeads KV heads of the whole model
 * @param modelBlockBytes bytes of one layer's block with all KV heads
 * @param oneAllocation all layers in one piece of memory; otherwise one piece for each
 * @param rank its place among the ranks
 * @param numWorkers engine threads
 * @param abortTimeout how long unfetched blocks are kept, and a pull waits for its prefill
 * @param leaseDuration {@code kv_lease_duration}, or {@code null} for none
 * @param connectorTimeout of one HTTP request
 * @param protocol the engine's transport
 * @param seed of the contents of its blocks; 0 leaves them zero
 * @param layerPrefix name of a layer, {@code {}} standing for its index
 * @param fingerprint {@code kv_cache_fingerprint}, or {@code null} for none
 * @param integrityCheck {@code integrity_check}
 * @param sendWhilePrefill {@code send_while_prefill}
 */
public record PeerOptions(
    KvRole role,
    String host,
    @Nullable String engineId,
    int bootstrapPort,
    @Nullable String bootstrapServerAddress,
    int layers,
    int numBlocks,
    int blockSize,
    int kvHeads,
    int modelBlockBytes,
    boolean oneAllocation,
    RankLayout rank,
    int numWorkers,
    Duration abortTimeout,
    @Nullable Duration leaseDuration,
    Duration connectorTimeout,
    String protocol,
    long seed,
    String layerPrefix,
    @Nullable String fingerprint,
    boolean integrityCheck,
    boolean sendWhilePrefill) {

  private static final Set<String> NAMES =
      Set.of(
          "role",
          "host",
          "engine-id",
          "bootstrap-port",
          "bootstrap-server-address",
          "layers",
          "num-blocks",
          "block-size",
          "kv-heads",
          "head-dim",
          "block-len",
          "kv-alloc",
          "tp-size",
          "tp-rank",
          "pp-size",
          "pp-rank",
          "dp-rank",
          "num-workers",
          "abort-timeout",
          "kv-lease-duration",
          "connector-timeout",
          "protocol",
          "seed",
          "layer-prefix",
          "fingerprint",
          "integrity-check",
          "send-while-prefill");

  /** Bytes of K and V of one token, head and dimension, as bfloat16. */
  private static final int KV_ELEMENT_BYTES = 4;

  /**
   * Reads {@code --name value} pairs.
   *
   * @throws IllegalArgumentException with every problem in one message
   */
  public static PeerOptions parse(String... args) {
    List<String> problems = new ArrayList<>();
    Values values = new Values(pairs(args, problems), problems);
    KvRole role = role(values);
    int kvHeads = values.number("kv-heads", 4, 1);
    int blockSize = values.number("block-size", 16, 1);
    int perDimension = kvHeads * blockSize * KV_ELEMENT_BYTES;
    int blockBytes =
        values.number("block-len", perDimension * values.number("head-dim", 128, 1), 1);
    if (blockBytes % perDimension != 0) {
      problems.add("--block-len " + blockBytes + " is not a multiple of " + perDimension);
    }
    String alloc = values.text("kv-alloc", "single");
    if (!alloc.equals("single") && !alloc.equals("per-layer")) {
      problems.add("--kv-alloc " + alloc + " is neither single nor per-layer");
    }
    RankLayout rank = rank(values);
    int layers = values.number("layers", 28, rank.ppSize());
    if (kvHeads % rank.tpSize() != 0 && rank.tpSize() % kvHeads != 0) {
      problems.add(
          "--kv-heads "
              + kvHeads
              + " and --tp-size "
              + rank.tpSize()
              + " do not divide each other");
    }
    PeerOptions options =
        new PeerOptions(
            role,
            values.text("host", "127.0.0.1"),
            values.optionalText("engine-id"),
            values.number("bootstrap-port", 8998, 0),
            values.optionalText("bootstrap-server-address"),
            layers,
            values.number("num-blocks", 320, 1),
            blockSize,
            kvHeads,
            blockBytes,
            alloc.equals("single"),
            rank,
            values.number("num-workers", 10, 1),
            values.seconds("abort-timeout", Duration.ofSeconds(480)),
            values.optionalSeconds("kv-lease-duration"),
            values.seconds("connector-timeout", Duration.ofSeconds(30)),
            values.text("protocol", "tcp"),
            values.number("seed", role == KvRole.PRODUCER ? 1 : 0, 0),
            values.text("layer-prefix", "model.layers.{}.self_attn.attn"),
            values.optionalText("fingerprint"),
            Boolean.parseBoolean(values.text("integrity-check", "false")),
            Boolean.parseBoolean(values.text("send-while-prefill", "false")));
    if (!problems.isEmpty()) {
      throw new IllegalArgumentException(String.join("; ", problems));
    }
    return options;
  }

  private static Map<String, String> pairs(String[] args, List<String> problems) {
    Map<String, String> pairs = new LinkedHashMap<>();
    for (int i = 0; i < args.length; i += 2) {
      String name = args[i].startsWith("--") ? args[i].substring(2) : "";
      if (!NAMES.contains(name)) {
        problems.add("option " + args[i] + " is not known");
      } else if (i + 1 == args.length) {
        problems.add("option " + args[i] + " has no value");
      } else {
        pairs.put(name, args[i + 1]);
      }
    }
    return pairs;
  }

  private static KvRole role(Values values) {
    String name = values.text("role", "");
    return switch (name) {
      case "prefiller" -> KvRole.PRODUCER;
      case "decoder" -> KvRole.CONSUMER;
      case "both" -> KvRole.BOTH;
      default -> {
        try {
          yield KvRole.ofConfigName(name);
        } catch (IllegalArgumentException e) {
          values.problems.add("--role: " + e.getMessage());
          yield KvRole.BOTH;
        }
      }
    };
  }

  private static RankLayout rank(Values values) {
    try {
      return new RankLayout(
          values.number("tp-rank", 0, 0),
          values.number("tp-size", 1, 1),
          values.number("pp-rank", 0, 0),
          values.number("pp-size", 1, 1),
          values.number("dp-rank", 0, 0));
    } catch (IllegalArgumentException e) {
      values.problems.add(String.valueOf(e.getMessage()));
      return RankLayout.single();
    }
  }

  /** KV heads of this rank: its share, or one that other ranks have too. */
  public int localHeads() {
    return Math.max(1, kvHeads / rank.tpSize());
  }

  /** The first of this rank's heads among all. */
  public int firstHead() {
    return rank.tpRank() * kvHeads / rank.tpSize();
  }

  /** Bytes of one layer's block on this rank. */
  public int blockBytes() {
    return modelBlockBytes / kvHeads * localHeads();
  }

  /** This rank's layers, by their index in the whole model. */
  public int[] layerIndices() {
    int perStage = layers / rank.ppSize();
    int first = rank.ppRank() * perStage;
    int end = rank.ppRank() == rank.ppSize() - 1 ? layers : first + perStage;
    int[] indices = new int[end - first];
    for (int i = 0; i < indices.length; i++) {
      indices[i] = first + i;
    }
    return indices;
  }

  /** The name of a layer. */
  public String layerName(int index) {
    return layerPrefix.replace("{}", String.valueOf(index));
  }

  /** The connector's configuration that these options come to. */
  public ConnectorConfig connectorConfig() {
    ConnectorConfig.Builder builder =
        ConnectorConfig.builder()
            .role(role)
            .host(host)
            .bootstrapPort(bootstrapPort)
            .numWorkers(numWorkers)
            .protocol(protocol)
            .connectorTimeout(connectorTimeout)
            .abortRequestTimeout(abortTimeout)
            .integrityCheck(integrityCheck)
            .sendWhilePrefill(sendWhilePrefill)
            .cacheSpec(
                new KvCacheSpec(List.of(KvCacheGroup.fullAttention(blockSize)), kvHeads, false, 1));
    if (engineId != null) {
      builder.engineId(engineId);
    }
    if (bootstrapServerAddress != null) {
      builder.bootstrapServerAddress(bootstrapServerAddress);
    }
    if (fingerprint != null) {
      builder.kvCacheFingerprint(fingerprint);
    }
    if (leaseDuration != null) {
      builder.leaseDuration(leaseDuration);
    }
    return builder.build();
  }

  private record Values(Map<String, String> byName, List<String> problems) {
    String text(String name, String defaultValue) {
      return byName.getOrDefault(name, defaultValue);
    }

    @Nullable String optionalText(String name) {
      return byName.get(name);
    }

    int number(String name, int defaultValue, int min) {
      String text = byName.get(name);
      if (text == null) {
        return defaultValue;
      }
      try {
        int value = Integer.parseInt(text);
        if (value >= min) {
          return value;
        }
      } catch (NumberFormatException e) {
        // Told below, with the text as it came.
      }
      problems.add("--" + name + " " + text + " is not a whole number of at least " + min);
      return defaultValue;
    }

    Duration seconds(String name, Duration defaultValue) {
      Duration value = optionalSeconds(name);
      return value == null ? defaultValue : value;
    }

    @Nullable Duration optionalSeconds(String name) {
      String text = byName.get(name);
      if (text == null) {
        return null;
      }
      try {
        double value = Double.parseDouble(text);
        if (value > 0 && value <= 86_400) {
          return Duration.ofNanos(Math.round(value * 1e9));
        }
      } catch (NumberFormatException e) {
        // Told below, with the text as it came.
      }
      problems.add("--" + name + " " + text + " is not a number of seconds of more than 0");
      return null;
    }
  }
}
