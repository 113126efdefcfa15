package dev.mooncake4j.core.consumer;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Pulls that wait to be asked for together, by prefiller. Owned by the worker loop.
 *
 * <p>Pulls of one step that go to one engine are one question, as in vLLM. Small ones of steps that
 * come faster than the loop takes them join it: a question, its answer and a batch of the engine
 * cost about the same for one block as for some dozens. Large ones do not, for a question's
 * requests are written by one engine thread, and are ready together.
 */
final class PullGroups {
  /** With more blocks than these, later steps begin another question. */
  static final int MOST_JOINED_BLOCKS = 64;

  /** The same for requests, which may have no blocks. */
  static final int MOST_JOINED_REQUESTS = 256;

  /** Before the newest question, for room; older ones are left as they are. */
  private static final int MOST_LOOKED_AT = 3;

  /** The pulls of one question. */
  static final class Group {
    final String engineId;
    final String bootstrapAddress;
    final List<PullRecord> records = new ArrayList<>();
    private final Set<String> requestIds = new HashSet<>();
    private final int begunIn;
    private int blocks;

    private Group(String engineId, String bootstrapAddress, int step) {
      this.engineId = engineId;
      this.bootstrapAddress = bootstrapAddress;
      this.begunIn = step;
    }

    private boolean takes(PullRecord record, int inStep) {
      if (requestIds.contains(record.pull.requestId())) {
        return false; // an answer names requests by it
      }
      return begunIn == inStep
          || (blocks + record.pull.blocks().totalSize() <= MOST_JOINED_BLOCKS
              && records.size() < MOST_JOINED_REQUESTS);
    }

    private void add(PullRecord record) {
      requestIds.add(record.pull.requestId());
      records.add(record);
      blocks += record.pull.blocks().totalSize();
    }
  }

  private record Engine(String engineId, String bootstrapAddress) {}

  /** For each engine the questions to come, the newest last. */
  private final Map<Engine, List<Group>> groups = new LinkedHashMap<>();

  private int step;

  /** A new step begins. */
  void nextStep() {
    step++;
  }

  void add(PullRecord record) {
    String engineId = record.pull.remoteEngineId();
    String bootstrapAddress = record.pull.remoteBootstrapAddr();
    List<Group> open =
        groups.computeIfAbsent(new Engine(engineId, bootstrapAddress), e -> new ArrayList<>());
    for (int i = open.size() - 1, last = Math.max(0, i - MOST_LOOKED_AT); i >= last; i--) {
      Group group = open.get(i);
      if (group.takes(record, step)) {
        group.add(record);
        return;
      }
    }
    Group group = new Group(engineId, bootstrapAddress, step);
    group.add(record);
    open.add(group);
  }

  boolean isEmpty() {
    return groups.isEmpty();
  }

  /** All groups, in the order in which their engines were first asked for; none are left. */
  List<Group> take() {
    List<Group> all = new ArrayList<>();
    groups.values().forEach(all::addAll);
    groups.clear();
    return all;
  }
}
