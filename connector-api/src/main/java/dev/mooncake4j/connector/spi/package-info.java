/**
 * Service interfaces: the connector by name, the transfer engine below it, the reader of {@code
 * --kv-transfer-config}, and the observer that metrics are built on.
 */
@NullMarked
package dev.mooncake4j.connector.spi;

import org.jspecify.annotations.NullMarked;
