package dev.mooncake4j.engine;

import java.nio.file.Path;

/**
 * Which engine library a process uses.
 *
 * @param file that it was opened from
 * @param binding how it is called: by its own C API, or through the adapter of the wheel's C++
 *     class
 * @param acknowledgesTcp whether a tcp write is complete only when the peer has the bytes
 */
public record EngineInfo(Path file, String binding, boolean acknowledgesTcp) {}
