/** What an inference server programs against, and the service interfaces behind it. */
module dev.mooncake4j.connector {
  requires static transitive org.jspecify;

  exports dev.mooncake4j.connector;
  exports dev.mooncake4j.connector.spi;

  uses dev.mooncake4j.connector.spi.ConnectorProvider;
  uses dev.mooncake4j.connector.spi.TransferEngineProvider;
  uses dev.mooncake4j.connector.spi.KvTransferConfigReader;
}
