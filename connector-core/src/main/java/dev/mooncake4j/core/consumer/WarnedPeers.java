package dev.mooncake4j.core.consumer;

import java.util.HashSet;
import java.util.Set;

/** Prefillers that were warned about, so that each is once. Owned by the worker loop. */
final class WarnedPeers {
  /** Past it the list starts anew. */
  private static final int MAX = 4096;

  private final Set<String> addresses = new HashSet<>();

  /** Whether this one is to be warned about now. */
  boolean isFirst(String address) {
    if (addresses.size() >= MAX) {
      addresses.clear();
    }
    return addresses.add(address);
  }
}
