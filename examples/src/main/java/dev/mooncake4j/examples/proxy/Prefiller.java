package dev.mooncake4j.examples.proxy;

import java.net.URI;

/**
 * A prefiller's server, and where its engines are registered.
 *
 * @param url of its API, without a trailing slash
 * @param bootstrap its bootstrap server, {@code http://host:port}
 */
record Prefiller(URI url, URI bootstrap) {}
