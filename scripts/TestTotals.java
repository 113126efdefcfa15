import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamException;
import javax.xml.stream.XMLStreamReader;

/**
 * Adds up the Surefire and Failsafe reports below the build folders given as arguments.
 *
 * <p>Prints the failed and the skipped tests with their reasons, then the totals. Exits with 0 when
 * all passed, 1 when one failed or a report cannot be read, 2 when no test ran.
 */
final class TestTotals {
  private final List<String> failed = new ArrayList<>();
  private final List<String> skipped = new ArrayList<>();
  private int passed;

  public static void main(String[] buildFolders) throws IOException {
    var totals = new TestTotals();
    for (String folder : buildFolders) {
      for (String kind : List.of("surefire-reports", "failsafe-reports")) {
        Path reports = Path.of(folder, kind);
        if (Files.isDirectory(reports)) {
          totals.addAll(reports);
        }
      }
    }
    System.exit(totals.print());
  }

  private void addAll(Path reports) throws IOException {
    try (var files = Files.newDirectoryStream(reports, "TEST-*.xml")) {
      for (Path file : files) {
        try {
          add(file);
        } catch (XMLStreamException e) {
          failed.add(file + ": unreadable report: " + firstLine(String.valueOf(e.getMessage())));
        }
      }
    }
  }

  private void add(Path file) throws IOException, XMLStreamException {
    XMLInputFactory factory = XMLInputFactory.newFactory();
    factory.setProperty(XMLInputFactory.SUPPORT_DTD, false);
    try (InputStream in = Files.newInputStream(file)) {
      XMLStreamReader xml = factory.createXMLStreamReader(in);
      while (xml.hasNext()) {
        if (xml.next() == XMLStreamConstants.START_ELEMENT
            && xml.getLocalName().equals("testcase")) {
          addCase(xml);
        }
      }
    }
  }

  /** Reads one test case, up to its end element. */
  private void addCase(XMLStreamReader xml) throws XMLStreamException {
    String name =
        nameOf(xml.getAttributeValue(null, "classname"), xml.getAttributeValue(null, "name"));
    String outcome = "passed";
    String reason = "";
    while (xml.next() != XMLStreamConstants.END_ELEMENT || !xml.getLocalName().equals("testcase")) {
      if (xml.getEventType() == XMLStreamConstants.START_ELEMENT) {
        String element = xml.getLocalName();
        if (List.of("failure", "error", "skipped").contains(element)) {
          outcome = element;
          reason = reasonOf(xml);
        }
      }
    }
    switch (outcome) {
      case "passed" -> passed++;
      case "skipped" -> skipped.add(name + reason);
      default -> failed.add(name + reason);
    }
  }

  private int print() {
    failed.stream().sorted().forEach(test -> System.out.println("failed: " + test));
    skipped.stream().sorted().forEach(test -> System.out.println("skipped: " + test));
    if (passed + failed.size() == 0) {
      System.out.println("no test ran");
    }
    System.out.printf("%d passed, %d failed, %d skipped%n", passed, failed.size(), skipped.size());
    if (!failed.isEmpty()) {
      return 1;
    }
    return passed == 0 ? 2 : 0;
  }

  /** A class that fails or is skipped as a whole is reported without a method. */
  private static String nameOf(String className, String method) {
    return method == null || method.isEmpty() || method.equals(className)
        ? className
        : className + "." + method;
  }

  /** Reads one failure, error or skipped element, up to its end. */
  private static String reasonOf(XMLStreamReader xml) throws XMLStreamException {
    String type = xml.getAttributeValue(null, "type");
    String message = xml.getAttributeValue(null, "message");
    String trace = xml.getElementText();
    // An unmet assumption has its message in the stack trace alone.
    String reason = firstLine(message == null ? trace.replace(type + ": ", "") : message);
    return reason.isEmpty() ? "" : " (" + reason.replace("Assumption failed: ", "") + ")";
  }

  private static String firstLine(String text) {
    return text.lines().map(String::strip).filter(line -> !line.isEmpty()).findFirst().orElse("");
  }
}
