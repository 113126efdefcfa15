package dev.mooncake4j.examples.jlama.server;

import dev.mooncake4j.connector.BlockIds;
import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvRequest;
import dev.mooncake4j.connector.StepResult;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The scheduler and the loop around the model: one thread that takes requests in, hands the
 * connector its step, and computes a piece of a prompt or a token of each running request in turn.
 *
 * <p>A request is waiting, then perhaps fetching, which holds blocks but neither a thread nor a
 * session of the model's, then ready, then running, and then over; the blocks of one that is over
 * may be held for its transfer. It gets all blocks that it may ever need when it leaves the queue,
 * so that none has to be taken back from it.
 *
 * <p>Longer than other classes, since a request's way is one thread's work from its queue to its
 * end, and is easier to follow in one place; what has a state of its own is elsewhere ({@link
 * BlockManager}, {@link KeptBlocks}, {@link Generation}).
 */
final class Engine implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Engine.class);

  /** Running requests get their next token after at most so many tokens of another's prompt. */
  static final int PREFILL_TOKENS = 128;

  private static final long CLOSE_MILLIS = 5_000;

  private final LanguageModel model;
  private final KvPool pool;
  private final BlockManager blocks;
  private final KeptBlocks kept;
  private final EngineObserver observer;
  private final ConcurrentLinkedQueue<Runnable> inbox = new ConcurrentLinkedQueue<>();
  private final Deque<LanguageModel.Session> sessions = new ArrayDeque<>();
  private final Thread thread;

  private final Deque<Generation> waiting = new ArrayDeque<>();
  private final Map<String, Generation> fetching = new HashMap<>();
  private final Deque<Generation> ready = new ArrayDeque<>();
  private @Nullable Generation prefilling;
  private final List<Generation> running = new ArrayList<>();

  private KvLink link = KvLink.NONE;
  private volatile boolean stopping;

  /**
   * An engine that is not started.
   *
   * @param sessions requests that run at once, at least 1
   */
  Engine(LanguageModel model, KvPool pool, int sessions, EngineObserver observer) {
    this.model = model;
    this.pool = pool;
    this.blocks = new BlockManager(pool.blocks());
    this.kept = new KeptBlocks(blocks);
    this.observer = observer;
    for (int i = 0; i < sessions; i++) {
      this.sessions.add(model.openSession());
    }
    this.thread = Thread.ofPlatform().name("engine").daemon().unstarted(this::run);
  }

  /**
   * Code and caches come to their final state by one prompt and eight tokens: after it two servers
   * compute the same KV to the last bit. Before the engine is started.
   */
  void warmUp(int[] prompt) {
    LanguageModel.Session session = sessions.element();
    int[] tokens = Arrays.copyOf(prompt, prompt.length + 8);
    int next = session.compute(tokens, 0, prompt.length);
    for (int at = prompt.length; at < tokens.length; at++) {
      tokens[at] = next;
      next = session.compute(tokens, at, at + 1);
    }
  }

  void start(KvLink kvLink) {
    this.link = kvLink;
    thread.start();
  }

  /** Queues a request; from any thread. */
  void submit(GenerationRequest request, GenerationListener listener) {
    Generation generation = new Generation(request, listener);
    post(
        () -> {
          link.arrived(generation.kvRequest());
          waiting.add(generation);
        });
  }

  /**
   * A request was refused before it got here: its prefiller is told that nobody will fetch the
   * blocks, or the decoder that waits for it here that there will be none. From any thread.
   */
  void refused(KvRequest request) {
    post(
        () -> {
          link.arrived(request);
          link.finished(request, BlockIds.none(), FinishReason.ABORTED);
        });
  }

  /** Gives a request up, whatever its state; its listener hears nothing more. From any thread. */
  void cancel(String requestId) {
    post(() -> cancelNow(requestId));
  }

  /** There may be results to poll; from any thread. */
  void wake() {
    LockSupport.unpark(thread);
  }

  private void post(Runnable task) {
    inbox.add(task);
    wake();
  }

  /** Whether the loop runs. */
  boolean isHealthy() {
    return thread.isAlive() && !stopping;
  }

  /** The longest prompt and answer together that can be served. */
  int maxTokens() {
    // The last token of an answer needs no KV.
    return Math.min(model.contextLength(), pool.blocks() * KvPool.BLOCK_TOKENS + 1);
  }

  private void run() {
    try {
      while (!stopping) {
        for (Runnable task = inbox.poll(); task != null; task = inbox.poll()) {
          task.run();
        }
        take(link.poll());
        schedule();
        link.startStep();
        boolean worked = computeSome();
        observer.load(
            waiting.size() + fetching.size() + ready.size(),
            running.size() + (prefilling == null ? 0 : 1),
            1 - (double) blocks.free() / pool.blocks());
        if (!worked && inbox.isEmpty()) {
          LockSupport.park(this);
        }
      }
    } catch (RuntimeException | Error e) {
      LOG.error("the engine has stopped by a fault of its own: restart the server", e);
      throw e;
    } finally {
      failAll();
    }
  }

  // --- Waiting: blocks, and the question where the KV comes from --------------------------------

  private void schedule() {
    while (!waiting.isEmpty()) {
      Generation next = waiting.element();
      if (!giveBlocks(next)) {
        return;
      }
      waiting.remove();
      observer.prefixCache(next.promptTokens(), next.computed());
      int loadable =
          next.isLocalOnly() ? 0 : link.loadableTokens(next.kvRequest(), next.computed());
      if (!next.isLocalOnly() && link.isConnected()) {
        observer.externalPrefixCache(next.promptTokens() - next.computed());
      }
      if (loadable == 0) {
        if (!next.isLocalOnly()) {
          link.allocated(next.kvRequest(), BlockIds.none(), 0);
        }
        ready.add(next);
      } else if (next.request().leaveUnfetched()) {
        // As when all is cached here: the prefiller's blocks are only released.
        link.allocated(next.kvRequest(), BlockIds.none(), 0);
        next.setNotCacheable();
        next.setComputed(next.promptTokens() - 1);
        ready.add(next);
      } else {
        link.allocated(next.kvRequest(), BlockIds.of(next.blocksToFetch()), loadable);
        fetching.put(next.request().id(), next);
      }
    }
  }

  private boolean giveBlocks(Generation next) {
    // The last token of a prompt is always computed: what follows it is not in the cache.
    int[] found = blocks.find(next.hashes(), (next.promptTokens() - 1) / KvPool.BLOCK_TOKENS);
    int all = KvPool.blocksFor(next.promptTokens() + next.request().maxTokens() - 1);
    int[] own = blocks.allocate(all - found.length);
    if (own == null) {
      blocks.release(found);
      return false;
    }
    next.setBlocks(found, own);
    return true;
  }

  // --- Results of transfers --------------------------------------------------------------------

  private void take(StepResult result) {
    for (StepResult.Sent sent : result.sent()) {
      kept.ended(sent.requestId());
    }
    for (String id : result.received()) {
      Generation generation = fetching.remove(id);
      if (generation == null) {
        kept.ended(id);
      } else {
        observer.fetched(generation.promptTokens() - generation.computed());
        generation.setFetchedTokens(generation.promptTokens() - generation.computed());
        // The KV of all tokens is there, but of what follows the last one the model has to be
        // asked.
        generation.setComputed(generation.promptTokens() - 1);
        nameFullBlocks(generation, generation.computed());
        ready.add(generation);
      }
    }
    for (Failure failure : result.failed()) {
      failed(failure);
    }
    for (Failure failure : result.quieted()) {
      kept.quieted(failure);
    }
  }

  /**
   * The prompt is computed here instead: in the same blocks, or in others where these may change.
   */
  private void failed(Failure failure) {
    String id = failure.requestId();
    Generation generation = fetching.remove(id);
    if (generation == null) {
      kept.failed(failure);
      return;
    }
    LOG.warn(
        "request_id={} transfer_id={}: kv load failed at stage={} peer={} reason={}; its prompt of"
            + " {} tokens is computed here",
        id,
        failure.transferId(),
        failure.stage(),
        failure.peer(),
        failure.reason(),
        generation.promptTokens());
    if (failure.quiet()) {
      ready.add(generation);
      return;
    }
    kept.quarantine(id, generation.blocksToFetch());
    blocks.release(generation.blocksNotToFetch());
    generation.dropBlocks();
    generation.setLocalOnly();
    waiting.addFirst(generation);
  }

  // --- Computing -------------------------------------------------------------------------------

  /** A piece of one prompt, and a token of each running request. */
  private boolean computeSome() {
    if (prefilling == null && !sessions.isEmpty() && !ready.isEmpty()) {
      Generation next = ready.remove();
      LanguageModel.Session session = sessions.remove();
      next.setSession(session);
      prefilling = next;
      session.load(pool, next.blocks(), 0, next.computed());
    }
    boolean worked = false;
    if (prefilling != null) {
      worked = true;
      prefill(prefilling);
    }
    for (Generation generation : List.copyOf(running)) {
      worked = true;
      guarded(generation, () -> advance(generation, generation.length()));
    }
    return worked;
  }

  private void prefill(Generation generation) {
    int to = Math.min(generation.promptTokens(), generation.computed() + PREFILL_TOKENS);
    boolean last = to == generation.promptTokens();
    if (last) {
      prefilling = null;
      running.add(generation);
    }
    guarded(generation, () -> advance(generation, to));
  }

  private void guarded(Generation generation, Runnable step) {
    try {
      step.run();
    } catch (RuntimeException e) {
      LOG.error("request_id={}: the model failed", generation.request().id(), e);
      finish(generation, FinishReason.ERROR);
      generation.listener().failed("the model failed: " + e);
    }
  }

  private void advance(Generation generation, int to) {
    LanguageModel.Session session = generation.session();
    if (session == null) {
      throw new IllegalStateException(
          "request_id=" + generation.request().id() + " has no session");
    }
    int from = generation.computed();
    int next = session.compute(generation.tokens(), from, to);
    session.store(pool, generation.blocks(), from, to);
    generation.setComputed(to);
    nameFullBlocks(generation, to);
    if (to == generation.length()) {
      answer(generation, next);
    }
  }

  private void answer(Generation generation, int token) {
    if (generation.answerTokens() == 0) {
      observer.prompt(generation.promptTokens());
    }
    generation.append(token);
    observer.generated();
    GenerationRequest request = generation.request();
    boolean ends =
        !request.ignoreEnd()
            && generation.answerTokens() >= request.minTokens()
            && model.isEnd(token);
    FinishReason end = null;
    if (ends) {
      end = FinishReason.STOP;
    } else if (generation.answerTokens() == request.maxTokens()) {
      end = FinishReason.LENGTH;
    }
    if (end != null) {
      finish(generation, end);
    }
    generation.listener().token(token, end, generation.cachedTokens());
  }

  private void nameFullBlocks(Generation generation, int tokens) {
    if (!generation.isCacheable()) {
      return;
    }
    generation.hashes().extend(generation.tokens(), tokens);
    for (int block = 0; block < tokens / KvPool.BLOCK_TOKENS; block++) {
      blocks.name(generation.blocks()[block], generation.hashes().get(block));
    }
  }

  // --- The end of a request --------------------------------------------------------------------

  private void finish(Generation generation, FinishReason reason) {
    running.remove(generation);
    if (prefilling == generation) {
      prefilling = null;
    }
    LanguageModel.Session session = generation.session();
    if (session != null) {
      sessions.add(session);
      generation.setSession(null);
    }
    if (link.finished(generation.kvRequest(), generation.promptBlocks(), reason)) {
      kept.hold(generation.request().id(), generation.blocks());
    } else {
      blocks.release(generation.blocks());
    }
  }

  private void cancelNow(String requestId) {
    Generation generation = find(requestId);
    if (generation == null) {
      return;
    }
    LOG.info("request_id={} is given up by its client", requestId);
    waiting.remove(generation);
    ready.remove(generation);
    fetching.remove(requestId);
    finish(generation, FinishReason.ABORTED);
  }

  private @Nullable Generation find(String requestId) {
    List<Generation> all = all();
    for (Generation generation : all) {
      if (generation.request().id().equals(requestId)) {
        return generation;
      }
    }
    return null;
  }

  private List<Generation> all() {
    List<Generation> all = new ArrayList<>(waiting);
    all.addAll(fetching.values());
    all.addAll(ready);
    if (prefilling != null) {
      all.add(prefilling);
    }
    all.addAll(running);
    return all;
  }

  private void failAll() {
    stopping = true;
    for (Runnable task = inbox.poll(); task != null; task = inbox.poll()) {
      task.run();
    }
    for (Generation generation : all()) {
      link.finished(generation.kvRequest(), generation.promptBlocks(), FinishReason.ABORTED);
      generation.listener().failed("the server is stopping");
    }
    link.startStep();
  }

  /** Gives all requests up and stops the loop; blocks for some seconds at most. */
  @Override
  public void close() {
    stopping = true;
    wake();
    try {
      thread.join(CLOSE_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
