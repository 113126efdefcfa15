package dev.mooncake4j.examples.pictures;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.ToIntFunction;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import tools.jackson.databind.json.JsonMapper;

/** The two pictures of the documentation, each drawn from servers that run or have run. */
@Command(
    name = "pictures",
    subcommands = CommandLine.HelpCommand.class,
    description = "Draws what Grafana would show, and the way of one request.")
public final class Pictures {
  private static final Duration IDLE = Duration.ofSeconds(3);

  private Pictures() {}

  /** Draws one of them; exits with 0 if it is drawn. */
  public static void main(String[] args) {
    CommandLine commandLine = new CommandLine(new Pictures());
    commandLine.setExecutionExceptionHandler(
        (e, command, result) -> {
          command.getErr().println("pictures: " + e.getMessage());
          return 1;
        });
    System.exit(commandLine.execute(args));
  }

  @Command(
      name = "dashboard",
      description = "Sends prompts to a proxy, scrapes the servers each second, and draws.")
  int dashboard(
      @Option(names = "--front", required = true, description = "The proxy.") URI front,
      @Option(names = "--scrape", required = true, description = "NAME=URL of metrics; each.")
          Map<String, URI> scrape,
      @Option(names = "--seconds", defaultValue = "60", description = "Of load.") int seconds,
      @Option(names = "--parallel", defaultValue = "4", description = "Requests at a time.")
          int parallel,
      @Option(names = "--max-tokens", defaultValue = "12", description = "Of each answer.")
          int maxTokens,
      @Option(names = "--dashboard", required = true, description = "Grafana's JSON.") Path json,
      @Option(names = "--requests", required = true, description = "Gets each request's times.")
          Path requests,
      @Option(names = "--out", required = true, description = "The picture.") Path out)
      throws IOException, InterruptedException {
    List<RequestTimes> times;
    List<Snapshot> snapshots;
    try (HttpClient http = HttpClient.newHttpClient()) {
      Load load = new Load(http, front, maxTokens);
      CompletableFuture<List<RequestTimes>> loaded =
          CompletableFuture.supplyAsync(
              () -> {
                try {
                  // Before and after it nothing happens, which the picture is to show.
                  Thread.sleep(IDLE);
                  List<RequestTimes> all = load.run(parallel, Duration.ofSeconds(seconds));
                  Thread.sleep(IDLE);
                  return all;
                } catch (IOException | InterruptedException e) {
                  throw new CompletionException(e);
                }
              });
      snapshots = new Scraper(http, new LinkedHashMap<>(scrape)).scrapeUntil(loaded);
      times = loaded.join();
    }
    Files.write(requests, times.stream().map(RequestTimes::line).toList());
    String subtitle =
        times.size()
            + " requests, "
            + parallel
            + " at a time, scraped each second; rates over "
            + (int) Query.RATE_SECONDS
            + " s; servers: "
            + String.join(", ", scrape.keySet());
    Files.writeString(
        out,
        DashboardPicture.draw(
            JsonMapper.shared().readTree(Files.readString(json)), snapshots, subtitle));
    System.out.println("pictures: " + out + ", " + subtitle);
    return 0;
  }

  @Command(
      name = "timeline",
      description = "Draws one request, of those sent, from recordings and the proxy's log.")
  int timeline(
      @Option(names = "--jfr", required = true, description = "A server's recording; each.")
          List<Path> recordings,
      @Option(names = "--proxy-log", required = true, description = "What the proxy has logged.")
          Path proxyLog,
      @Option(names = "--requests", required = true, description = "As written by dashboard.")
          Path requests,
      @Option(names = "--out", required = true, description = "The picture.") Path out)
      throws IOException {
    Recordings stages = Recordings.read(recordings);
    List<String> log = Files.readAllLines(proxyLog);
    List<RequestTimes> known = new ArrayList<>();
    for (String line : Files.readAllLines(requests)) {
      RequestTimes times = RequestTimes.parse(line);
      String transfer = stages.transferOf(times.traceId());
      if (transfer != null
          && stages.sides(transfer).size() == 2
          && !ProxyLog.bars(log, times.traceId()).isEmpty()) {
        known.add(times);
      }
    }
    if (known.isEmpty()) {
      throw new IOException("no request is in both recordings and in the proxy's log");
    }
    RequestTimes chosen = typical(known, stages);
    String transfer = String.valueOf(stages.transferOf(chosen.traceId()));
    List<Bar> bars = new ArrayList<>(stages.stages(transfer));
    bars.add(new Bar("client", "to the first token", chosen.sent(), chosen.first(), ""));
    bars.add(new Bar("client", "rest of the answer", chosen.first(), chosen.end(), ""));
    bars.addAll(ProxyLog.bars(log, chosen.traceId()));
    Files.writeString(
        out,
        TimelinePicture.draw(
            "One request through proxy, prefiller and decoder",
            "transfer_id=" + transfer + " trace_id=" + chosen.traceId(),
            bars,
            chosen.first()));
    System.out.println("pictures: " + out + ", transfer_id=" + transfer);
    return 0;
  }

  /** Of those with the most stages, the one that took neither long nor short. */
  private static RequestTimes typical(List<RequestTimes> known, Recordings recordings) {
    ToIntFunction<RequestTimes> stages =
        t -> recordings.stages(String.valueOf(recordings.transferOf(t.traceId()))).size();
    int most = known.stream().mapToInt(stages).max().orElse(0);
    List<RequestTimes> full =
        known.stream()
            .filter(t -> stages.applyAsInt(t) == most)
            .sorted(Comparator.comparing(t -> Duration.between(t.sent(), t.end())))
            .toList();
    return full.get(full.size() / 2);
  }
}
