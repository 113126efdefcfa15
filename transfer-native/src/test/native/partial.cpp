// A library with a part of the engine's C API.
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT void *createTransferEngine() { return nullptr; }
EXPORT void destroyTransferEngine() {}
EXPORT int submitTransfer() { return -1; }
