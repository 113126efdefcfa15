package dev.mooncake4j.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * What both sides are told of the same requests, in the same order.
 *
 * @param prefills as a prefiller is told of them
 * @param pulls as a decoder is
 */
record Requests(List<Map<String, ?>> prefills, List<Map<String, ?>> pulls) {

  /**
   * Requests that have a shape.
   *
   * @param first number of the first: no others that live may have these numbers
   * @param prefiller where the decoder finds the blocks
   * @param source ids of the prefiller's blocks, one request behind the other
   * @param destination ids of the decoder's
   */
  static Requests of(
      int first, RemotePeer prefiller, Shape shape, int[] source, int[] destination) {
    List<Map<String, ?>> prefills = new ArrayList<>();
    List<Map<String, ?>> pulls = new ArrayList<>();
    int n = shape.blocks();
    for (int i = 0; i < shape.requests(); i++) {
      int id = first + i;
      prefills.add(
          Map.of(
              "req_id",
              "p-" + id,
              "transfer_id",
              "x-" + id,
              "block_ids",
              Arrays.copyOfRange(source, i * n, (i + 1) * n)));
      pulls.add(
          Map.of(
              "req_id",
              "d-" + id,
              "transfer_id",
              "x-" + id,
              "remote_engine_id",
              prefiller.engineId(),
              "remote_bootstrap_addr",
              prefiller.bootstrap(),
              "block_ids",
              Arrays.copyOfRange(destination, i * n, (i + 1) * n)));
    }
    return new Requests(prefills, pulls);
  }

  int count() {
    return pulls.size();
  }

  /** The prefiller's id of one. */
  String prefillId(int index) {
    return String.valueOf(prefills.get(index).get("req_id"));
  }

  Requests part(int from, int to) {
    return new Requests(prefills.subList(from, to), pulls.subList(from, to));
  }
}
