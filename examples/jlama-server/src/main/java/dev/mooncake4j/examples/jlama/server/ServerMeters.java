package dev.mooncake4j.examples.jlama.server;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;

/** The engine's figures under the names, and with the labels, that vLLM's servers have for them. */
final class ServerMeters implements EngineObserver {
  private final Counter prefixQueries;
  private final Counter prefixHits;
  private final Counter externalQueries;
  private final Counter fetchedTokens;
  private final Counter promptTokens;
  private final Counter generatedTokens;
  private volatile int waiting;
  private volatile int running;
  private volatile double cacheUsage;

  ServerMeters(String modelName, MeterRegistry registry) {
    Tags tags = Tags.of("model_name", modelName, "engine", "0");
    Gauge.builder("vllm:num_requests_waiting", () -> waiting).tags(tags).register(registry);
    Gauge.builder("vllm:num_requests_running", () -> running).tags(tags).register(registry);
    Gauge.builder("vllm:kv_cache_usage_perc", () -> cacheUsage).tags(tags).register(registry);
    prefixQueries = registry.counter("vllm:prefix_cache_queries", tags);
    prefixHits = registry.counter("vllm:prefix_cache_hits", tags);
    externalQueries = registry.counter("vllm:external_prefix_cache_queries", tags);
    fetchedTokens = registry.counter("vllm:external_prefix_cache_hits", tags);
    promptTokens = registry.counter("vllm:prompt_tokens", tags);
    generatedTokens = registry.counter("vllm:generation_tokens", tags);
  }

  @Override
  public void load(int waitingRequests, int runningRequests, double usage) {
    waiting = waitingRequests;
    running = runningRequests;
    cacheUsage = usage;
  }

  @Override
  public void prefixCache(int prompt, int found) {
    prefixQueries.increment(prompt);
    prefixHits.increment(found);
  }

  @Override
  public void externalPrefixCache(int tokens) {
    externalQueries.increment(tokens);
  }

  @Override
  public void fetched(int tokens) {
    fetchedTokens.increment(tokens);
  }

  @Override
  public void prompt(int tokens) {
    promptTokens.increment(tokens);
  }

  @Override
  public void generated() {
    generatedTokens.increment();
  }
}
