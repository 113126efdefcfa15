// A library that is no engine.
extern "C" __attribute__((visibility("default"))) int m4j_nothing() { return 0; }
