package dev.mooncake4j.core.plan;

import dev.mooncake4j.connector.KvCacheLayout;
import dev.mooncake4j.connector.KvCacheRegion;
import java.lang.foreign.MemorySegment;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The arenas behind the host memory of a cache, to be looked at before it is read or written: a
 * server that closes one too early is told which, and its process lives. Memory that is given as an
 * address on a device has none, and of it nothing can be told.
 *
 * <p>An arena that is closed while the engine copies is found by nobody: the look is taken just
 * before. Immutable; for use by many threads.
 */
public final class OpenArenas {
  /** None to look at. */
  static final OpenArenas NONE = new OpenArenas(Map.of());

  private final MemorySegment.Scope[] scopes;

  /** For each the first region that lies in it. */
  private final KvCacheRegion[] regions;

  private OpenArenas(Map<MemorySegment.Scope, KvCacheRegion> firstRegions) {
    scopes = firstRegions.keySet().toArray(new MemorySegment.Scope[0]);
    regions = firstRegions.values().toArray(new KvCacheRegion[0]);
  }

  /** Those of a layout: one for each arena, however many regions lie in it. */
  public static OpenArenas of(KvCacheLayout layout) {
    Map<MemorySegment.Scope, KvCacheRegion> firstRegions = new LinkedHashMap<>();
    for (KvCacheRegion region : layout.regions()) {
      MemorySegment segment = region.memory().segment();
      if (segment != null) {
        firstRegions.putIfAbsent(segment.scope(), region);
      }
    }
    return new OpenArenas(firstRegions);
  }

  /**
   * What is wrong, with the region, if one is closed; {@code null} if all are open. Takes a look at
   * each arena and allocates nothing.
   */
  public @Nullable String closed() {
    for (int i = 0; i < scopes.length; i++) {
      if (!scopes[i].isAlive()) {
        return "the arena of "
            + regions[i].memory()
            + " of layer="
            + regions[i].layerName()
            + " is closed: keep it open until the worker is closed";
      }
    }
    return null;
  }
}
