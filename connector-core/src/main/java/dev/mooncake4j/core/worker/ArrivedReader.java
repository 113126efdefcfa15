package dev.mooncake4j.core.worker;

import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** The thread that reads what has arrived, where it is to be checked; there while it has work. */
final class ArrivedReader {
  private static final int IDLE_SECONDS = 10;

  private ArrivedReader() {}

  static ThreadPoolExecutor start(String name) {
    ThreadPoolExecutor reader =
        new ThreadPoolExecutor(
            1,
            1,
            IDLE_SECONDS,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            Thread.ofPlatform().name("m4j-check-" + name).daemon().factory(),
            // After the worker has closed nobody waits for what is read.
            new ThreadPoolExecutor.DiscardPolicy());
    reader.allowCoreThreadTimeOut(true);
    return reader;
  }
}
