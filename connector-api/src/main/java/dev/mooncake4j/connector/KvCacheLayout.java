package dev.mooncake4j.connector;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The KV memory of one worker: its regions, layer by layer.
 *
 * @param regions at least one, in the model's layer order
 */
public record KvCacheLayout(List<KvCacheRegion> regions) {

  /** Copies the list. */
  public KvCacheLayout {
    regions = List.copyOf(regions);
    if (regions.isEmpty()) {
      throw new IllegalArgumentException("kv cache layout has no regions: give one per layer");
    }
  }

  /** The distinct pieces of memory behind the regions, in order of first use. */
  public List<KvMemory> memories() {
    Map<Long, KvMemory> byAddress = new LinkedHashMap<>();
    for (KvCacheRegion region : regions) {
      KvMemory memory = region.memory();
      KvMemory known = byAddress.putIfAbsent(memory.address(), memory);
      if (known != null && known.length() < memory.length()) {
        byAddress.put(memory.address(), memory);
      }
    }
    return new ArrayList<>(byAddress.values());
  }

  /**
   * A layout whose layers lie one after another in one memory, each as {@code blockCount} blocks.
   *
   * @param memory of at least layers * blockCount * blockBytes bytes
   * @param layerNames in the order in which the layers lie there
   * @param blockBytes of a block of one layer, not of all layers together
   * @param blockCount of each layer
   * @throws IllegalArgumentException if the memory is too small, with the numbers
   */
  public static KvCacheLayout layersInOne(
      KvMemory memory, List<String> layerNames, long blockBytes, long blockCount) {
    BigInteger needed =
        BigInteger.valueOf(layerNames.size())
            .multiply(BigInteger.valueOf(blockCount))
            .multiply(BigInteger.valueOf(blockBytes));
    if (needed.compareTo(BigInteger.valueOf(memory.length())) > 0) {
      throw new IllegalArgumentException(
          "layers="
              + layerNames.size()
              + " * block_count="
              + blockCount
              + " * block_bytes="
              + blockBytes
              + " (of one layer's block) is "
              + needed
              + " bytes, more than the memory's length="
              + memory.length()
              + ": give the bytes of one layer's block, or a larger memory");
    }
    List<KvCacheRegion> regions = new ArrayList<>();
    for (int i = 0; i < layerNames.size(); i++) {
      regions.add(
          KvCacheRegion.of(
              layerNames.get(i), i, memory, i * blockBytes * blockCount, blockBytes, blockCount));
    }
    return new KvCacheLayout(regions);
  }
}
