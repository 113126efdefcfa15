package dev.mooncake4j.core.producer;

import dev.mooncake4j.connector.spi.DescriptorList;
import dev.mooncake4j.connector.spi.TransferEngine;
import dev.mooncake4j.connector.spi.WriteResult;
import dev.mooncake4j.core.integrity.Digests;
import dev.mooncake4j.core.integrity.HostMemory;
import dev.mooncake4j.core.plan.BlockRuns;
import dev.mooncake4j.core.plan.LocalCache;
import dev.mooncake4j.core.plan.PlanException;
import dev.mooncake4j.core.producer.TransferJob.Outcome;
import dev.mooncake4j.core.wire.TransferDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Engine threads in a test's hand: a job is planned when it comes and stays until the test writes
 * and ends it.
 */
public final class ManualTransfers implements TransferRunner {
  private final TransferEngine engine;
  private final WriteWatch watch;
  private final List<Transfer> underWay = new ArrayList<>();
  private int submitted;
  private @Nullable RuntimeException submitFailure;

  /** Sees each copy before it is made. */
  @FunctionalInterface
  public interface WriteWatch {
    /** A copy of {@code length} bytes begins. */
    void onWrite(long source, long destination, long length);
  }

  /** Transfers that write through this engine. */
  public ManualTransfers(TransferEngine engine, WriteWatch watch) {
    this.engine = engine;
    this.watch = watch;
  }

  /** Has a producer serve pulls from a cache through these transfers. */
  public void attach(Producer producer, LocalCache cache, HostMemory memory) {
    producer.attach(cache, memory, this);
  }

  @Override
  public void submit(TransferJob job, Consumer<Outcome> done) {
    if (submitFailure != null) {
      throw submitFailure;
    }
    submitted++;
    underWay.add(new Transfer(job, done));
  }

  @Override
  public int pending() {
    return underWay.size();
  }

  @Override
  public int writing() {
    return underWay.size();
  }

  @Override
  public boolean close(long waitNanos) {
    return underWay.isEmpty();
  }

  /** From now on no job is taken. */
  public void failSubmits(@Nullable RuntimeException failure) {
    submitFailure = failure;
  }

  /** Transfers under way, the oldest first. */
  public List<Transfer> underWay() {
    return List.copyOf(underWay);
  }

  /** The one that is under way; fails if there is none or there are several. */
  public Transfer only() {
    if (underWay.size() != 1) {
      throw new AssertionError("transfers under way=" + underWay.size() + ", not 1");
    }
    return underWay.getFirst();
  }

  /** Jobs taken so far. */
  public int submitted() {
    return submitted;
  }

  /** Writes and ends all that is under way. */
  public void completeAll() {
    underWay().forEach(Transfer::complete);
  }

  /** One job under way. */
  public final class Transfer {
    private final TransferJob job;
    private final Consumer<Outcome> done;
    private final @Nullable String[] failures;
    private final @Nullable TransferDigest[] digests;
    private final List<long[]> copies = new ArrayList<>();
    private int written;
    private long bytes;

    private Transfer(TransferJob job, Consumer<Outcome> done) {
      this.job = job;
      this.done = done;
      this.failures = new @Nullable String[job.parts().size()];
      this.digests = new @Nullable TransferDigest[job.parts().size()];
      HostMemory digested = job.digested();
      BlockRuns runs = new BlockRuns();
      try (DescriptorList list = new DescriptorList()) {
        for (int i = 0; i < failures.length; i++) {
          TransferJob.Part part = job.parts().get(i);
          int from = list.size();
          try {
            list.fence();
            job.plan().plan(part.local(), part.remote(), runs, list);
            if (digested != null) {
              digests[i] = Digests.ofSources(digested, list, from, list.size());
            }
          } catch (PlanException e) {
            failures[i] = e.getMessage();
          }
        }
        for (int i = 0; i < list.size(); i++) {
          copies.add(new long[] {list.source(i), list.destination(i), list.length(i)});
        }
      }
    }

    /** Whether it is not to be begun any more: the decoder's connection has ended. */
    public boolean isForNobody() {
      return job.asker().isGone();
    }

    /** Whether nothing of it was written. */
    public boolean isUntouched() {
      return written == 0;
    }

    /** Where it goes, {@code host:port}. */
    public String session() {
      return job.session();
    }

    /** Whether it reads blocks of this transfer. */
    public boolean reads(String transferId) {
      return job.parts().stream().anyMatch(part -> part.names().transferId().equals(transferId));
    }

    /** Requests in it. */
    public int parts() {
      return job.parts().size();
    }

    /** Copies that are left to write. */
    public int left() {
      return copies.size() - written;
    }

    /** Writes the next copies, as many as there are. */
    public void write(int count) {
      try (DescriptorList list = new DescriptorList()) {
        for (int i = 0; i < count && written < copies.size(); i++, written++) {
          long[] copy = copies.get(written);
          watch.onWrite(copy[0], copy[1], copy[2]);
          list.add(copy[0], copy[1], copy[2]);
          bytes += copy[2];
        }
        WriteResult result = engine.write(job.session(), list, TimeUnit.SECONDS.toNanos(1));
        if (!result.isCompleted()) {
          fail(result.message());
        }
      }
    }

    /** Writes what is left and says that all went well, as far as it could be planned. */
    public void complete() {
      write(left());
      if (underWay.contains(this)) {
        end(
            new Outcome(
                Arrays.asList(failures), false, 1_000, bytes, written, Arrays.asList(digests)));
      }
    }

    /** It is not begun, since it is for nobody. */
    public void leave() {
      String reason = isForNobody() ? Asker.GONE : "somebody waits for it";
      end(new Outcome(Collections.nCopies(failures.length, reason), false, 0, 0, 0));
    }

    /** The engine has failed, and nothing is written any more. */
    public void fail(String reason) {
      @Nullable String[] all = failures.clone();
      for (int i = 0; i < all.length; i++) {
        if (all[i] == null) {
          all[i] = "transfer engine: " + reason;
        }
      }
      end(new Outcome(Arrays.asList(all), true, 1_000, bytes, written));
    }

    private void end(Outcome outcome) {
      if (!underWay.remove(this)) {
        throw new AssertionError("this transfer has ended already");
      }
      done.accept(outcome);
    }
  }
}
