/**
 * An in-memory transfer engine, a clock to drive by hand, and the contract of an engine as tests.
 */
module dev.mooncake4j.testkit {
  requires transitive dev.mooncake4j.connector;
  requires transitive org.junit.jupiter.api;
  requires org.assertj.core;
  requires static transitive org.jspecify;

  exports dev.mooncake4j.testkit;
}
