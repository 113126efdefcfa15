package dev.mooncake4j.examples.jlama.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.mooncake4j.connector.Failure;
import dev.mooncake4j.connector.FinishReason;
import dev.mooncake4j.connector.KvTransferParams;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.awaitility.Awaitility;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class EngineTest {
  private static final int BLOCKS = 16;

  private final ToyModel model = new ToyModel();
  private final ScriptedLink link = new ScriptedLink();
  private final KvPool pool = new KvPool(model.layers(), model.rowBytes(), BLOCKS, Arena.ofAuto());
  private final Load load = new Load();
  private final Engine engine = new Engine(model, pool, 2, load);

  /** The engine's figures. */
  private static final class Load implements EngineObserver {
    volatile int waiting;
    volatile int running;
    volatile double usage;
    final AtomicInteger promptTokens = new AtomicInteger();
    final AtomicInteger externalQueries = new AtomicInteger();

    @Override
    public void prompt(int tokens) {
      promptTokens.addAndGet(tokens);
    }

    @Override
    public void externalPrefixCache(int tokens) {
      externalQueries.addAndGet(tokens);
    }

    @Override
    public void load(int waitingRequests, int runningRequests, double cacheUsage) {
      waiting = waitingRequests;
      running = runningRequests;
      usage = cacheUsage;
    }
  }

  /** What one request's listener has heard. */
  private static final class Heard implements GenerationListener {
    final List<Integer> tokens = new ArrayList<>();
    final CompletableFuture<String> end = new CompletableFuture<>();
    final CountDownLatch first = new CountDownLatch(1);
    volatile int cached;

    @Override
    public void token(int token, @Nullable FinishReason reason, int cachedTokens) {
      tokens.add(token);
      cached = cachedTokens;
      first.countDown();
      if (reason != null) {
        end.complete(reason.name());
      }
    }

    @Override
    public void failed(String reason) {
      end.complete(reason);
    }

    String awaitEnd() throws Exception {
      return end.get(20, TimeUnit.SECONDS);
    }
  }

  private void start() {
    link.wakes(engine);
    engine.start(link);
  }

  @AfterEach
  void stop() {
    engine.close();
  }

  private static int[] prompt(int length, int seed) {
    return IntStream.range(0, length).map(i -> (i * 31 + seed * 17) % 90 + 1).toArray();
  }

  private static GenerationRequest local(String id, int[] prompt, int maxTokens) {
    return request(id, prompt, maxTokens, GenerationRequest.NO_TRANSFER);
  }

  private static GenerationRequest request(
      String id, int[] prompt, int maxTokens, KvTransferParams params) {
    return new GenerationRequest(id, prompt, maxTokens, 0, true, null, params, false);
  }

  private static GenerationRequest decoded(String id, int[] prompt, int maxTokens) {
    return request(id, prompt, maxTokens, KvTransferParams.forDecoder(id, "p", "http://p:1"));
  }

  private Heard submit(GenerationRequest request) {
    Heard heard = new Heard();
    engine.submit(request, heard);
    return heard;
  }

  private static List<Integer> expected(int[] prompt, int length) {
    return Arrays.stream(ToyModel.answer(prompt, length)).boxed().toList();
  }

  private void awaitNothingHeld() {
    Awaitility.await().until(() -> load.usage == 0 && load.waiting == 0 && load.running == 0);
  }

  private void fill(ScriptedLink.Pull pull, int[] prompt, int firstToken) {
    int[] blocks = new int[KvPool.blocksFor(prompt.length)];
    System.arraycopy(pull.blocks().toArray(0), 0, blocks, firstToken / 16, pull.blocks().size(0));
    for (int at = firstToken; at < prompt.length; at++) {
      ToyModel.write(pool, blocks, at, prompt[at]);
    }
  }

  @Test
  void moreRequestsThanSessionsAreAllAnswered() throws Exception {
    start();
    List<Heard> heard = new ArrayList<>();
    for (int i = 0; i < 6; i++) {
      heard.add(submit(local("r" + i, prompt(20 + i, i), 10)));
    }
    for (int i = 0; i < 6; i++) {
      assertThat(heard.get(i).awaitEnd()).isEqualTo("LENGTH");
      assertThat(heard.get(i).tokens).isEqualTo(expected(prompt(20 + i, i), 10));
    }
    awaitNothingHeld();
  }

  @Test
  void aPromptLongerThanOnePieceIsComputedInPieces() throws Exception {
    start();
    int[] prompt = prompt(Engine.PREFILL_TOKENS + 50, 1);
    Heard heard = submit(local("long", prompt, 5));
    heard.awaitEnd();
    assertThat(heard.tokens).isEqualTo(expected(prompt, 5));
  }

  @Test
  void aBeginningThatIsCachedIsNotComputedAgain() throws Exception {
    start();
    int[] first = prompt(40, 1);
    submit(local("a", first, 3)).awaitEnd();
    int before = model.computedTokens;
    int[] second = Arrays.copyOf(first, 45);
    Heard heard = submit(local("b", second, 3));
    heard.awaitEnd();
    assertThat(heard.tokens).isEqualTo(expected(second, 3));
    assertThat(heard.cached).isEqualTo(32);
    assertThat(model.computedTokens - before).isEqualTo(45 - 32 + 2);
  }

  @Test
  void anotherSaltSharesNothing() throws Exception {
    start();
    int[] prompt = prompt(40, 1);
    submit(local("a", prompt, 1)).awaitEnd();
    GenerationRequest salted =
        new GenerationRequest(
            "b", prompt, 1, 0, true, "salt", GenerationRequest.NO_TRANSFER, false);
    Heard heard = submit(salted);
    heard.awaitEnd();
    assertThat(heard.cached).isZero();
  }

  @Test
  void whatIsFetchedIsNotComputed() throws Exception {
    start();
    int[] prompt = prompt(40, 3);
    Heard heard = submit(decoded("d", prompt, 4));
    ScriptedLink.Pull pull = link.nextPull();
    assertThat(pull.tokens()).isEqualTo(40);
    assertThat(pull.blocks().size(0)).isEqualTo(3);
    fill(pull, prompt, 0);
    link.report(ScriptedLink.received("d"));
    assertThat(heard.awaitEnd()).isEqualTo("LENGTH");
    assertThat(heard.tokens).isEqualTo(expected(prompt, 4));
    // The last token of the prompt, and three of the answer.
    assertThat(model.computedTokens).isEqualTo(4);
    awaitNothingHeld();
  }

  @Test
  void oneThatWaitsForItsBlocksHoldsNobodyUp() throws Exception {
    start();
    Heard waits = submit(decoded("d", prompt(40, 3), 4));
    link.nextPull();
    for (int i = 0; i < 3; i++) {
      assertThat(submit(local("r" + i, prompt(30, i), 4)).awaitEnd()).isEqualTo("LENGTH");
    }
    assertThat(waits.tokens).isEmpty();
    assertThat(load.waiting).isEqualTo(1);
  }

  @Test
  void onlyWhatIsNotCachedIsFetched() throws Exception {
    start();
    int[] prompt = prompt(50, 3);
    submit(local("a", Arrays.copyOf(prompt, 33), 1)).awaitEnd();
    Heard heard = submit(decoded("d", prompt, 4));
    ScriptedLink.Pull pull = link.nextPull();
    assertThat(pull.tokens()).isEqualTo(50 - 32);
    assertThat(pull.blocks().size(0)).isEqualTo(2);
    fill(pull, prompt, 32);
    link.report(ScriptedLink.received("d"));
    heard.awaitEnd();
    assertThat(heard.tokens).isEqualTo(expected(prompt, 4));
    // As vLLM counts: whole prompts, wherever their KV is from, and of each what was not here.
    assertThat(load.promptTokens).hasValue(33 + 50);
    assertThat(load.externalQueries).hasValue(33 + 50 - 32);
  }

  @Test
  void withoutAConnectorNobodyElseIsAsked() throws Exception {
    engine.start(KvLink.NONE);
    submit(local("a", prompt(Engine.PREFILL_TOKENS + 50, 1), 2)).awaitEnd();
    assertThat(load.externalQueries).hasValue(0);
    assertThat(load.promptTokens).hasValue(Engine.PREFILL_TOKENS + 50);
  }

  @Test
  void aLoadThatFailedIsComputedHere() throws Exception {
    start();
    int[] prompt = prompt(40, 3);
    Heard heard = submit(decoded("d", prompt, 4));
    ScriptedLink.Pull pull = link.nextPull();
    link.report(ScriptedLink.failed(ScriptedLink.failure(pull, true)));
    assertThat(heard.awaitEnd()).isEqualTo("LENGTH");
    assertThat(heard.tokens).isEqualTo(expected(prompt, 4));
    assertThat(heard.cached).isZero();
    awaitNothingHeld();
  }

  @Test
  void blocksThatMayStillBeWrittenToAreNotUsed() throws Exception {
    start();
    int[] prompt = prompt(40, 3);
    Heard heard = submit(decoded("d", prompt, 4));
    ScriptedLink.Pull pull = link.nextPull();
    Failure failure = ScriptedLink.failure(pull, false);
    link.report(ScriptedLink.failed(failure));
    assertThat(heard.awaitEnd()).isEqualTo("LENGTH");
    assertThat(heard.tokens).isEqualTo(expected(prompt, 4));
    assertThat(link.nextEnd().blocks().toArray(0))
        .doesNotContain(Arrays.stream(pull.blocks().toArray(0)).boxed().toArray(Integer[]::new));
    Awaitility.await().until(() -> load.usage == 3.0 / BLOCKS);
    link.report(ScriptedLink.quieted(failure));
    awaitNothingHeld();
  }

  @Test
  void aPrefillersBlocksAreKeptUntilTheyAreSent() throws Exception {
    link.keeping.add("p");
    start();
    Heard heard = submit(request("p", prompt(40, 2), 1, KvTransferParams.forPrefiller("x")));
    assertThat(heard.awaitEnd()).isEqualTo("LENGTH");
    ScriptedLink.End end = link.nextEnd();
    assertThat(end.blocks().size(0)).isEqualTo(3);
    assertThat(end.reason()).isEqualTo(FinishReason.LENGTH);
    Awaitility.await().until(() -> load.usage == 3.0 / BLOCKS);
    link.report(ScriptedLink.sent("p"));
    awaitNothingHeld();
  }

  @Test
  void onlyThePromptsBlocksTravel() throws Exception {
    start();
    submit(request("p", prompt(30, 2), 20, KvTransferParams.forPrefiller("x"))).awaitEnd();
    assertThat(link.nextEnd().blocks().size(0)).isEqualTo(2);
  }

  @Test
  void oneThatDoesNotFitWaitsForBlocks() throws Exception {
    start();
    Heard first = submit(local("a", prompt(16 * 10, 1), 80));
    Heard second = submit(local("b", prompt(16 * 5, 2), 17));
    assertThat(first.awaitEnd()).isEqualTo("LENGTH");
    assertThat(second.awaitEnd()).isEqualTo("LENGTH");
    assertThat(second.tokens).isEqualTo(expected(prompt(16 * 5, 2), 17));
    awaitNothingHeld();
  }

  @Test
  void oneGivenUpWhileItFetchesKeepsItsBlocksUntilItIsNamed() throws Exception {
    start();
    Heard heard = submit(decoded("d", prompt(40, 3), 4));
    link.nextPull();
    engine.cancel("d");
    assertThat(link.nextEnd().reason()).isEqualTo(FinishReason.ABORTED);
    Awaitility.await().until(() -> load.waiting == 0);
    assertThat(load.usage).isEqualTo(3.0 / BLOCKS);
    link.report(ScriptedLink.received("d"));
    awaitNothingHeld();
    assertThat(heard.tokens).isEmpty();
  }

  @Test
  void oneGivenUpWhileItRunsEnds() throws Exception {
    start();
    Heard heard = submit(local("r", prompt(10, 1), 200));
    assertThat(heard.first.await(20, TimeUnit.SECONDS)).isTrue();
    engine.cancel("r");
    link.nextEnd();
    awaitNothingHeld();
  }

  @Test
  void anEndTokenEndsUnlessItIsIgnoredOrTooEarly() throws Exception {
    start();
    // Sums up to the end token at once.
    int[] prompt = {ToyModel.END};
    Heard heard = new Heard();
    engine.submit(
        new GenerationRequest("a", prompt, 5, 0, false, null, GenerationRequest.NO_TRANSFER, false),
        heard);
    assertThat(heard.awaitEnd()).isEqualTo("STOP");
    assertThat(heard.tokens).containsExactly(ToyModel.END);
    Heard later = new Heard();
    engine.submit(
        new GenerationRequest("b", prompt, 5, 2, false, null, GenerationRequest.NO_TRANSFER, false),
        later);
    later.awaitEnd();
    assertThat(later.tokens).hasSizeGreaterThan(1);
    Heard ignored = submit(local("c", prompt, 5));
    assertThat(ignored.awaitEnd()).isEqualTo("LENGTH");
  }

  @Test
  void aModelThatFailsFailsThatRequestAlone() throws Exception {
    model.failing = true;
    start();
    assertThat(submit(local("a", prompt(20, 1), 4)).awaitEnd()).contains("told to fail");
    model.failing = false;
    assertThat(submit(local("b", prompt(20, 1), 4)).awaitEnd()).isEqualTo("LENGTH");
    awaitNothingHeld();
  }

  @Test
  void closingEndsWhatIsUnderWay() throws Exception {
    start();
    Heard heard = submit(decoded("d", prompt(40, 3), 4));
    link.nextPull();
    engine.close();
    assertThat(heard.awaitEnd()).contains("stopping");
    assertThat(link.nextEnd().reason()).isEqualTo(FinishReason.ABORTED);
    assertThat(engine.isHealthy()).isFalse();
  }
}
