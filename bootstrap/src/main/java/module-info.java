/** Where prefillers say at which addresses their workers listen, and decoders ask. */
module dev.mooncake4j.bootstrap {
  requires static transitive org.jspecify;
  requires transitive dev.mooncake4j.connector;
  requires java.net.http;
  requires org.slf4j;
  requires tools.jackson.core;
  requires tools.jackson.databind;
  requires io.netty.buffer;
  requires io.netty.codec;
  requires io.netty.codec.http;
  requires io.netty.common;
  requires io.netty.handler;
  requires io.netty.transport;

  exports dev.mooncake4j.bootstrap;
}
