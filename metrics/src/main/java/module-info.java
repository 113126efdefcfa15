/** The connector's meters for Micrometer, under the names that vLLM's dashboards know. */
module dev.mooncake4j.metrics {
  requires static transitive org.jspecify;
  requires transitive dev.mooncake4j.connector;
  requires transitive micrometer.core;
  requires org.slf4j;

  exports dev.mooncake4j.metrics;
}
