package dev.mooncake4j.examples.pictures;

import java.util.List;
import java.util.Locale;

/** A picture that is being drawn; lengths are in pixels. */
final class Svg {
  /** Colours that are told apart by those who do not see all of them. */
  static final List<String> COLOURS =
      List.of("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9");

  static final String INK = "#24292f";
  static final String FAINT = "#6e7781";
  static final String GRID = "#e4e7eb";

  private final StringBuilder out = new StringBuilder();

  Svg(int width, int height, String title) {
    out.append(
        String.format(
            Locale.ROOT,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\""
                + " viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans, Verdana, Helvetica, sans-serif\">%n",
            width,
            height,
            width,
            height));
    out.append("<title>").append(escaped(title)).append("</title>\n");
    box(0, 0, width, height, "#ffffff", "none");
  }

  void box(double x, double y, double width, double height, String fill, String border) {
    add(
        String.format(
            Locale.ROOT,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" stroke=\"%s\"/>",
            x,
            y,
            width,
            height,
            fill,
            border));
  }

  void line(double x, double y, double toX, double toY, String colour) {
    add(
        String.format(
            Locale.ROOT,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>",
            x,
            y,
            toX,
            toY,
            colour));
  }

  /** A path through points, as {@code M x y L x y}. */
  void path(String points, String colour) {
    add(
        String.format(
            Locale.ROOT,
            "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" stroke-linejoin=\"round\"/>",
            points,
            colour));
  }

  /**
   * A line of text.
   *
   * @param anchor start, middle or end: what of it is at x
   */
  void text(double x, double y, int size, String anchor, String colour, String text) {
    add(
        String.format(
            Locale.ROOT,
            "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\" fill=\"%s\">%s</text>",
            x,
            y,
            size,
            anchor,
            colour,
            escaped(text)));
  }

  void heading(double x, double y, int size, String text) {
    add(
        String.format(
            Locale.ROOT,
            "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" font-weight=\"bold\" fill=\"%s\">%s</text>",
            x,
            y,
            size,
            INK,
            escaped(text)));
  }

  /** The whole file. */
  String end() {
    return out + "</svg>\n";
  }

  private void add(String element) {
    out.append(element).append('\n');
  }

  private static String escaped(String text) {
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
  }
}
