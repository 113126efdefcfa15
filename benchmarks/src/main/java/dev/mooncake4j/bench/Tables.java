package dev.mooncake4j.bench;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** What is printed of results. */
final class Tables {
  private Tables() {}

  /** A row for each shape, a column for each party. */
  static TextTable oneRequest(Results results) {
    List<Party> parties = List.copyOf(results.parties());
    List<String> titles = new ArrayList<>(List.of("blocks"));
    parties.forEach(party -> titles.add(party.title));
    titles.add("ours GB/s");
    TextTable table = new TextTable(titles.toArray(String[]::new));
    for (Shape shape : results.shapes()) {
      List<String> row = new ArrayList<>(List.of(shape.toString()));
      for (Party party : parties) {
        row.add(milliseconds(results.total(shape, party)));
      }
      row.add(
          TextTable.number(
              Targets.gigabytesPerSecond(results.bytes(shape), results.total(shape, Party.OURS))));
      table.add(row);
    }
    return table;
  }

  /** A row for each shape and party. */
  static TextTable many(Results results) {
    TextTable table =
        new TextTable("requests x blocks", "party", "GB/s", "requests/s", "p50 ms", "p99 ms");
    for (Shape shape : results.shapes()) {
      for (Party party : results.parties()) {
        Double total = results.total(shape, party);
        table.add(
            List.of(
                shape.toString(),
                party.title,
                TextTable.number(Targets.gigabytesPerSecond(results.bytes(shape), total)),
                TextTable.number(Targets.perSecond(shape.requests(), total)),
                milliseconds(results.latency(shape, party, 50)),
                milliseconds(results.latency(shape, party, 99))));
      }
    }
    return table;
  }

  /** A row for each target. */
  static TextTable targets(List<Figure> figures) {
    TextTable table = new TextTable("figure", "ours", "peer", "unit", "ratio", "target", "met");
    for (Figure figure : figures) {
      Boolean met = figure.met();
      table.add(
          List.of(
              figure.figure(),
              TextTable.number(figure.ours()),
              TextTable.number(figure.peer()),
              figure.unit(),
              TextTable.number(figure.ratio()),
              figure.target(),
              met == null ? "-" : met ? "yes" : "no"));
    }
    return table;
  }

  static String milliseconds(@Nullable Double seconds) {
    return TextTable.number(seconds == null ? null : (Double) (seconds * 1e3));
  }
}
