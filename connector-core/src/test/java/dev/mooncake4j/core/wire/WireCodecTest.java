package dev.mooncake4j.core.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.mooncake4j.connector.BlockIds;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class WireCodecTest {
  private static final WireLayout TWO_REGIONS =
      new WireLayout(
          new long[] {0x1000, 0x2000},
          new long[] {64, 64},
          new long[] {64, 32},
          new String[] {"a", "b"},
          new int[] {0, 7},
          new int[] {0, 1},
          new int[][] {{0}, {0, 1}},
          new long[] {-1, 32});

  @Test
  void renewalIsAMapWithOneField() throws MalformedMessageException {
    RenewRequest renewal = new RenewRequest(List.of("xfer-1", "xfer-\u00e9"));
    byte[] bytes = WireCodec.encode(renewal);
    assertThat(hex(bytes))
        .isEqualTo("81b2" + hex("renew_transfer_ids") + "92a6786665722d31a7786665722dc3a9");
    assertThat(WireCodec.decodeRequest(bytes)).isEqualTo(renewal);
    RenewRequest none = new RenewRequest(List.of());
    assertThat(WireCodec.decodeRequest(WireCodec.encode(none))).isEqualTo(none);
  }

  @Test
  void releaseIsAMapWithOneField() throws MalformedMessageException {
    ReleaseRequest release = new ReleaseRequest(List.of("xfer-1"));
    byte[] bytes = WireCodec.encode(release);
    assertThat(hex(bytes)).isEqualTo("81b4" + hex("release_transfer_ids") + "91a6786665722d31");
    assertThat(WireCodec.decodeRequest(bytes)).isEqualTo(release);
  }

  /** For a vLLM that does not know them a required field is missing: it answers with an error. */
  @Test
  void renewalAndReleaseAreNoPullForVllm() {
    for (byte[] message :
        List.of(
            WireCodec.encode(new RenewRequest(List.of("t"))),
            WireCodec.encode(new ReleaseRequest(List.of("t"))))) {
      assertThat(new String(message, StandardCharsets.UTF_8)).doesNotContain("remote_hostname");
    }
  }

  @Test
  void answersOfOursAreReadAsTheyWere() throws MalformedMessageException {
    for (PullResponse response :
        List.of(
            PullResponse.finished(List.of("a"), List.of("b"), "b failed", 7),
            PullResponse.finished(List.of(), List.of(), null, 0),
            PullResponse.partial(List.of("a"), List.of(), null, -1),
            PullResponse.partial(List.of(), List.of("a"), "no", -1),
            PullResponse.error("no", 3),
            PullResponse.layoutMiss("which?"))) {
      assertThat(WireCodec.decodeResponse(WireCodec.encode(response))).isEqualTo(response);
    }
  }

  @Test
  void whatOursAddToAPullIsLeftOutUnlessItIsSet() throws MalformedMessageException {
    PullRequest plain =
        new PullRequest(
            "h",
            1,
            1,
            0,
            List.of(new PullEntry("d", "t", BlockIds.of(1, 2))),
            TWO_REGIONS,
            1,
            7,
            null,
            false);
    String bytes = new String(WireCodec.encode(plain), StandardCharsets.ISO_8859_1);
    assertThat(bytes).doesNotContain("fingerprint").doesNotContain("digest");
    PullRequest both =
        new PullRequest("h", 1, 1, 0, plain.entries(), TWO_REGIONS, 1, 7, "Qwen2.5-7B bf16", true);
    PullRequest read = (PullRequest) WireCodec.decodeRequest(WireCodec.encode(both));
    assertThat(read.fingerprint()).isEqualTo("Qwen2.5-7B bf16");
    assertThat(read.digest()).isTrue();
    assertThat(read.layoutId()).isEqualTo(7);
  }

  @Test
  void digestsAreReadAsTheyWere() throws MalformedMessageException {
    PullResponse response =
        PullResponse.finished(List.of("a", "b"), List.of(), null, 7)
            .withDigests(
                Map.of(
                    "a",
                    new TransferDigest(0xffff_ffffL, new long[] {0x7fff_0000_0000L, 1L << 33}),
                    "b",
                    new TransferDigest(0, new long[0])));
    assertThat(WireCodec.decodeResponse(WireCodec.encode(response))).isEqualTo(response);
  }

  @Test
  void aDigestOfAnotherShapeIsMalformed() {
    for (String digest : List.of("9101", "930190c0", "92019101", "9201c0", "92a0" + "90", "01")) {
      // {"status": 0, "digests": {"a": …}}
      String message = "82a6" + hex("status") + "00a7" + hex("digests") + "81a161" + digest;
      assertThatThrownBy(() -> WireCodec.decodeResponse(HexFormat.of().parseHex(message)))
          .isInstanceOf(MalformedMessageException.class)
          .hasMessageContaining("digests");
    }
  }

  @Test
  void quietIsSaidOnlyWhereSomethingHasFailed() {
    assertThat(text(PullResponse.finished(List.of("a"), List.of(), null, 7)))
        .doesNotContain("quiet");
    assertThat(text(PullResponse.partial(List.of("a"), List.of(), null, 7)))
        .doesNotContain("quiet");
    assertThat(text(PullResponse.error("no", 7))).doesNotContain("quiet");
    assertThat(text(PullResponse.layoutMiss("no"))).doesNotContain("quiet");
    assertThat(text(PullResponse.finished(List.of(), List.of("a"), "no", 0))).contains("quiet");
    assertThat(text(PullResponse.partial(List.of(), List.of("a"), "no", 0))).contains("quiet");
  }

  @Test
  void quietComesLastAndVllmsAnswersHaveNone() throws MalformedMessageException {
    byte[] ours = WireCodec.encode(PullResponse.finished(List.of(), List.of("r"), null, 5));
    assertThat(hex(ours))
        .isEqualTo(
            "84a673746174757300"
                + ("a8" + hex("err_reqs") + "91a172a9" + hex("layout_id") + "05")
                + ("a5" + hex("quiet") + "c3"));
    byte[] vllms = HexFormat.of().parseHex("82a673746174757300a86572725f7265717391a172");
    assertThat(WireCodec.decodeResponse(vllms).quiet()).isFalse();
    assertThat(WireCodec.decodeResponse(ours).quiet()).isTrue();
  }

  @Test
  void addressesAreUnsigned() throws MalformedMessageException {
    long[] addresses = {-1L, Long.MIN_VALUE, Long.MAX_VALUE, 0x7fff_0000_0000L, 0};
    PullRequest pull = pull(layout(addresses, new long[5]), BlockIds.of(1));
    byte[] bytes = WireCodec.encode(pull);
    assertThat(hex(bytes))
        .contains("95cfffffffffffffffffcf8000000000000000cf7fffffffffffffffcf00007fff0000000000aa");
    PullRequest read = (PullRequest) WireCodec.decodeRequest(bytes);
    assertThat(read).isEqualTo(pull);
    assertThat(Long.toUnsignedString(read.layout().baseAddress(0)))
        .isEqualTo("18446744073709551615");
  }

  @Test
  void lengthsAreSigned() throws MalformedMessageException {
    long[] lengths = edges();
    PullRequest pull = pull(layout(new long[lengths.length], lengths), BlockIds.of(1));
    assertThat(WireCodec.decodeRequest(WireCodec.encode(pull))).isEqualTo(pull);
    for (String form : List.of("cf8000000000000000", "cfffffffffffffffff")) {
      byte[] tooLong = withLength(form);
      assertThatThrownBy(() -> WireCodec.decodeRequest(tooLong))
          .isInstanceOf(MalformedMessageException.class)
          .hasMessageContaining("field=block_lens")
          .hasMessageContaining(
              "value=" + Long.toUnsignedString(Long.parseUnsignedLong(form, 2, 18, 16)))
          .hasMessageContaining("is 2^63 or more");
    }
  }

  /** The least and the greatest number of every form, and their neighbours. */
  private static long[] edges() {
    return IntStream.range(0, 64)
        .mapToLong(bit -> 1L << bit)
        .flatMap(v -> LongStream.of(v - 1, v, v + 1, -v - 1, -v, -v + 1))
        .toArray();
  }

  @Test
  void numbersTakeTheShortestForm() {
    String[][] forms = {
      {"0", "00"},
      {"127", "7f"},
      {"128", "cc80"},
      {"255", "ccff"},
      {"256", "cd0100"},
      {"65535", "cdffff"},
      {"65536", "ce00010000"},
      {"4294967295", "ceffffffff"},
      {"4294967296", "cf0000000100000000"},
      {"9223372036854775807", "cf7fffffffffffffff"},
      {"-1", "ff"},
      {"-32", "e0"},
      {"-33", "d0df"},
      {"-128", "d080"},
      {"-129", "d1ff7f"},
      {"-32768", "d18000"},
      {"-32769", "d2ffff7fff"},
      {"-2147483648", "d280000000"},
      {"-2147483649", "d3ffffffff7fffffff"},
      {"-9223372036854775808", "d38000000000000000"}
    };
    for (String[] form : forms) {
      MessagePackWriter out = new MessagePackWriter();
      out.integer(Long.parseLong(form[0]));
      assertThat(hex(out.toBytes())).as(form[0]).isEqualTo(form[1]);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1, 15, 16, 63, 64, 65, 128, 1_000, 20_000})
  void blockIdsOfAllFormsAreWrittenOneByOneAndReadAgain(int n) throws Exception {
    int[] edges = {
      0, 127, 128, 255, 256, 65_535, 65_536, 300_000, Integer.MAX_VALUE, -1, -32, -33, -129, -32_769
    };
    int[] ids = IntStream.range(0, n).map(i -> edges[(i * 5 + i / 70) % edges.length]).toArray();
    MessagePackWriter oneByOne = new MessagePackWriter();
    oneByOne.arrayHeader(n);
    for (int id : ids) {
      oneByOne.integer(id);
    }
    MessagePackWriter atOnce = new MessagePackWriter();
    atOnce.integers(ids);
    assertThat(atOnce.toBytes()).isEqualTo(oneByOne.toBytes());
    MessagePackWriter ofBlocks = MessagePackWriter.forBlockIds(n);
    ofBlocks.blockIds(BlockIds.ofGroups(new int[] {7}, ids), 1);
    assertThat(ofBlocks.toBytes()).isEqualTo(oneByOne.toBytes());
    MessagePackReader in = new MessagePackReader(oneByOne.toBytes());
    assertThat(in.readInts()).isEqualTo(ids);
    assertThat(in.atEnd()).isTrue();
  }

  @Test
  void anIdInALongerFormThanItNeedsIsReadAmongOthers() throws Exception {
    String[] forms = {
      "cc05",
      "cd0005",
      "ce00000005",
      "cf0000000000000005",
      "d005",
      "d10005",
      "d200000005",
      "d30000000000000005"
    };
    for (String form : forms) {
      for (int others : new int[] {0, 62, 63, 64, 100}) {
        String list =
            String.format("dd%08x", 2 * others + 1)
                + "cd1234".repeat(others)
                + form
                + "7f".repeat(others);
        int[] read = new MessagePackReader(HexFormat.of().parseHex(list)).readInts();
        assertThat(read).as(form).hasSize(2 * others + 1);
        assertThat(read[others]).as(form).isEqualTo(5);
        assertThat(IntStream.of(read).sum()).as(form).isEqualTo(others * (0x1234 + 0x7f) + 5);
      }
    }
  }

  @Test
  void anIdPastTwoToThe31OrCutShortAmongOthersIsMalformed() {
    for (String last : List.of("ce80000000", "cf0000000080000000", "cd12", "ce123456", "cc", "")) {
      String list = "dc0041" + "cd1234".repeat(64) + last;
      assertThatThrownBy(() -> new MessagePackReader(HexFormat.of().parseHex(list)).readInts())
          .as(last)
          .isInstanceOf(MalformedMessageException.class)
          .hasMessageMatching(".*(outside 32 bits|ends early|bytes_left).*");
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536, 70_000})
  void stringsAndListsOfAnyLengthAreReadAsTheyWere(int n) throws Exception {
    RenewRequest longText = new RenewRequest(List.of("\u00e9" + "x".repeat(n)));
    assertThat(WireCodec.decodeRequest(WireCodec.encode(longText))).isEqualTo(longText);
    RenewRequest longList = new RenewRequest(IntStream.range(0, n).mapToObj(i -> "t" + i).toList());
    assertThat(WireCodec.decodeRequest(WireCodec.encode(longList))).isEqualTo(longList);
    PullRequest ids = pull(TWO_REGIONS, BlockIds.of(IntStream.range(0, n).toArray()));
    assertThat(WireCodec.decodeRequest(WireCodec.encode(ids))).isEqualTo(ids);
    PullRequest requests =
        new PullRequest(
            "h",
            1,
            1,
            0,
            IntStream.range(0, n)
                .mapToObj(i -> new PullEntry("r" + i, "t" + i, BlockIds.none()))
                .toList(),
            TWO_REGIONS,
            1,
            0);
    assertThat(WireCodec.decodeRequest(WireCodec.encode(requests))).isEqualTo(requests);
  }

  @Test
  void headersTakeTheShortestForm() {
    int[] counts = {15, 16, 65_535, 65_536};
    String[] arrays = {"9f", "dc0010", "dcffff", "dd00010000"};
    String[] maps = {"8f", "de0010", "deffff", "df00010000"};
    for (int i = 0; i < counts.length; i++) {
      MessagePackWriter array = new MessagePackWriter();
      array.arrayHeader(counts[i]);
      assertThat(hex(array.toBytes())).isEqualTo(arrays[i]);
      MessagePackWriter map = new MessagePackWriter();
      map.mapHeader(counts[i]);
      assertThat(hex(map.toBytes())).isEqualTo(maps[i]);
    }
    int[] lengths = {31, 32, 255, 256, 65_535, 65_536};
    String[] strings = {"bf", "d920", "d9ff", "da0100", "daffff", "db00010000"};
    for (int i = 0; i < lengths.length; i++) {
      MessagePackWriter string = new MessagePackWriter();
      string.string("x".repeat(lengths[i]));
      assertThat(hex(string.toBytes())).startsWith(strings[i] + "78");
    }
  }

  @Test
  void theFieldsLeftOutAreThoseAtTheirDefault() throws MalformedMessageException {
    PullRequest plain = pull(WireLayout.empty(), BlockIds.none());
    assertThat(hex(WireCodec.encode(plain)))
        .startsWith("88af")
        .endsWith(hex("kv_block_lens") + "90");
    PullRequest full =
        new PullRequest(
            "h",
            1,
            1,
            0,
            List.of(new PullEntry("r", "t", BlockIds.ofGroups(new int[] {1}, new int[0]))),
            TWO_REGIONS,
            2,
            -1);
    assertThat(hex(WireCodec.encode(full))).startsWith("8faf").endsWith("cfffffffffffffffff");
    assertThat(WireCodec.decodeRequest(WireCodec.encode(full))).isEqualTo(full);
  }

  @Test
  void aPullThatOnlyReleasesHasNoGroups() throws MalformedMessageException {
    byte[] bytes = WireCodec.encode(pull(TWO_REGIONS, BlockIds.none()));
    assertThat(hex(bytes)).contains("81a17292a17490b3");
    PullRequest read = (PullRequest) WireCodec.decodeRequest(bytes);
    assertThat(read.entries().getFirst().blocks()).isEqualTo(BlockIds.none());
  }

  @ParameterizedTest
  @ValueSource(strings = {"ce80000000", "d3ffffffff7fffffff", "cf8000000000000000"})
  void aBlockIdOutsideAnIntIsMalformed(String id) {
    byte[] message = withBlockId(id);
    assertThatThrownBy(() -> WireCodec.decodeRequest(message))
        .isInstanceOf(MalformedMessageException.class)
        .hasMessageContaining("field=req_blocks")
        .hasMessageContaining("value=");
  }

  @Test
  void aBlockIdInAnyFormIsRead() throws MalformedMessageException {
    String[] forms = {"05", "cc05", "cd0005", "ce00000005", "cf0000000000000005", "d005", "d10005"};
    for (String form : forms) {
      assertThat(idRead(form)).as(form).isEqualTo(5);
    }
    assertThat(idRead("ce7fffffff")).isEqualTo(Integer.MAX_VALUE);
    assertThat(idRead("d200000005")).isEqualTo(5);
    assertThat(idRead("d30000000000000005")).isEqualTo(5);
    assertThat(idRead("ff")).isEqualTo(-1);
    assertThat(idRead("d280000000")).isEqualTo(Integer.MIN_VALUE);
  }

  private static int idRead(String form) throws MalformedMessageException {
    PullRequest pull = (PullRequest) WireCodec.decodeRequest(withBlockId(form));
    return pull.entries().getFirst().blocks().get(0, 0);
  }

  @Test
  void layoutListsOfDifferentLengthsAreNamed() {
    WireLayout crooked =
        new WireLayout(
            new long[] {1, 2},
            new long[] {64},
            new long[] {64, 64},
            new String[] {"a", "b", "c"},
            new int[0],
            new int[] {0, 0},
            new int[][] {{0}, {0}},
            new long[] {-1, -1});
    byte[] bytes = WireCodec.encode(pull(crooked, BlockIds.of(1)));
    assertThatThrownBy(() -> WireCodec.decodeRequest(bytes))
        .isInstanceOf(MalformedMessageException.class)
        .hasMessageContaining("block_lens has length=1 for regions=2")
        .hasMessageContaining("registered_layer_names has length=3 for regions=2")
        .hasMessageNotContaining("kv_block_lens");
  }

  @Test
  void layoutsAreEqualIfAllTheirListsAre() {
    assertThat(twoRegionsBut(-1)).isEqualTo(TWO_REGIONS).hasSameHashCodeAs(TWO_REGIONS);
    for (int list = 0; list < 8; list++) {
      assertThat(twoRegionsBut(list)).as("list=" + list).isNotEqualTo(TWO_REGIONS);
    }
  }

  /** The layout of two regions with one of its lists changed. */
  private static WireLayout twoRegionsBut(int list) {
    return new WireLayout(
        new long[] {0x1000, list == 0 ? 9 : 0x2000},
        new long[] {64, list == 1 ? 9 : 64},
        new long[] {64, list == 2 ? 9 : 32},
        new String[] {"a", list == 3 ? "z" : "b"},
        new int[] {0, list == 4 ? 9 : 7},
        new int[] {0, list == 5 ? 9 : 1},
        new int[][] {{0}, {0, list == 6 ? 9 : 1}},
        new long[] {-1, list == 7 ? 9 : 32});
  }

  @Test
  void aRequestTwiceInOnePullCountsOnceWithItsLastValue() throws MalformedMessageException {
    byte[] message =
        withRequests("83a17292a174919101a17392a17490a17292a1759102".replace("9102", "919102"));
    PullRequest pull = (PullRequest) WireCodec.decodeRequest(message);
    assertThat(pull.entries())
        .containsExactly(
            new PullEntry("r", "u", BlockIds.of(2)), new PullEntry("s", "t", BlockIds.none()));
  }

  @Test
  void aStringThatIsNotUtf8IsMalformed() {
    for (String text : List.of("a1ff", "a2c328", "a3eda080", "a2c080", "a1c3")) {
      byte[] message = HexFormat.of().parseHex("81b2" + hex("renew_transfer_ids") + "91" + text);
      assertThatThrownBy(() -> WireCodec.decodeRequest(message))
          .as(text)
          .isInstanceOf(MalformedMessageException.class)
          .hasMessageContaining("not UTF-8");
    }
  }

  @Test
  void aPullOfManyBlocksIsReadInNoTime() throws MalformedMessageException {
    int[] ids = IntStream.range(0, 8_192).map(i -> i * 37 % 300_000).toArray();
    byte[] bytes = WireCodec.encode(pull(TWO_REGIONS, BlockIds.of(ids)));
    assertThat(((PullRequest) WireCodec.decodeRequest(bytes)).entries().getFirst().blocks())
        .isEqualTo(BlockIds.of(ids));
    int rounds = 500;
    long[] took = new long[rounds];
    for (int i = 0; i < rounds; i++) {
      long start = System.nanoTime();
      WireCodec.decodeRequest(bytes);
      took[i] = System.nanoTime() - start;
    }
    Arrays.sort(took);
    System.out.println(
        "decode block_ids=8192 bytes=" + bytes.length + " median_us=" + took[rounds / 2] / 1000);
  }

  private static WireLayout layout(long[] addresses, long[] lengths) {
    return new WireLayout(
        addresses,
        lengths,
        lengths,
        new String[0],
        new int[0],
        new int[0],
        new int[0][],
        new long[0]);
  }

  private static PullRequest pull(WireLayout layout, BlockIds blocks) {
    return new PullRequest("h", 1, 1, 0, List.of(new PullEntry("r", "t", blocks)), layout, 1, 0);
  }

  private static byte[] withRequests(String requests) {
    return replaced(pull(WireLayout.empty(), BlockIds.of(1)), "81a17292a174919101", requests);
  }

  private static byte[] withBlockId(String form) {
    return withRequests("81a17292a1749191" + form);
  }

  private static byte[] withLength(String form) {
    PullRequest pull = pull(layout(new long[1], new long[] {64}), BlockIds.of(1));
    return replaced(
        pull, "aa" + hex("block_lens") + "9140", "aa" + hex("block_lens") + "91" + form);
  }

  private static byte[] replaced(PullRequest pull, String what, String by) {
    String bytes = hex(WireCodec.encode(pull));
    assertThat(bytes).containsOnlyOnce(what);
    return HexFormat.of().parseHex(bytes.replace(what, by));
  }

  private static String text(PullResponse response) {
    return new String(WireCodec.encode(response), StandardCharsets.ISO_8859_1);
  }

  private static String hex(String text) {
    return hex(text.getBytes(StandardCharsets.UTF_8));
  }

  private static String hex(byte[] bytes) {
    return HexFormat.of().formatHex(bytes);
  }
}
