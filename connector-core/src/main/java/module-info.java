/** The connector: scheduler side, worker side, planner, and the protocol between them. */
module dev.mooncake4j.core {
  requires transitive dev.mooncake4j.connector;
  requires dev.mooncake4j.bootstrap;
  requires jdk.jfr;
  requires jdk.net;
  requires static org.jspecify;
  requires org.slf4j;
  requires tools.jackson.databind;

  provides dev.mooncake4j.connector.spi.ConnectorProvider with
      dev.mooncake4j.core.MooncakeConnectorProvider;
  provides dev.mooncake4j.connector.spi.KvTransferConfigReader with
      dev.mooncake4j.core.config.JsonKvTransferConfigReader;

  uses dev.mooncake4j.connector.spi.TransferEngineProvider;
}
