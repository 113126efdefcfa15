/**
 * An in-memory transfer engine, a clock to drive by hand, and the contract of an engine as tests.
 */
module dev.mooncake4j.testkit {
  requires transitive dev.mooncake4j.connector;
  requires transitive org.junit.jupiter.api;
  requires transitive org.junit.jupiter.params;
  requires org.assertj.core;
  requires static transitive org.jspecify;

  exports dev.mooncake4j.testkit;

  // JUnit calls the contract's tests, which are not public.
  opens dev.mooncake4j.testkit to
      org.junit.platform.commons;
}
