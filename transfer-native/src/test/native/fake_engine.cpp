// placeholder
extern "C" __attribute__((visibility("default"))) int m4j_fake() { return 0; }
