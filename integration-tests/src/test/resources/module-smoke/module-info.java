/** A server that names the connector's interface alone; the rest is found as services. */
module dev.mooncake4j.smoke {
  requires dev.mooncake4j.connector;
}
