/**
 * The native Mooncake transfer engine behind {@link dev.mooncake4j.connector.spi.TransferEngine}.
 *
 * <p>Needs {@code --enable-native-access=dev.mooncake4j.engine}, or {@code ALL-UNNAMED} on the
 * class path.
 */
module dev.mooncake4j.engine {
  requires transitive dev.mooncake4j.connector;
  requires org.slf4j;
  requires static transitive org.jspecify;

  exports dev.mooncake4j.engine;

  provides dev.mooncake4j.connector.spi.TransferEngineProvider with
      dev.mooncake4j.engine.NativeTransferEngineProvider;
}
