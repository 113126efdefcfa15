/**
 * The connector's meters for Micrometer: {@link dev.mooncake4j.metrics.ConnectorMetrics} observes a
 * connector, {@link dev.mooncake4j.metrics.ConnectorMeter} lists what it records. On a Prometheus
 * scrape the names, buckets and labels are those of vLLM's MooncakeConnector.
 */
@NullMarked
package dev.mooncake4j.metrics;

import org.jspecify.annotations.NullMarked;
