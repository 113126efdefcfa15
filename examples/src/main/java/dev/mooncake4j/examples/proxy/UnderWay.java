package dev.mooncake4j.examples.proxy;

/** A client's request that is being served; it runs on a thread of its own. */
interface UnderWay extends Runnable {
  /** No status: the client is gone, and this is what the log says of it. */
  int CLIENT_GONE = 499;

  String requestId();

  /** Ends it, from any thread; the first reason stays. */
  void stop(ProxyFailure why);

  /** The client has closed its connection. */
  default void clientGone() {
    stop(new ProxyFailure(CLIENT_GONE, "the client is gone"));
  }
}
