// A stand-in for CUDA's runtime and driver library on a machine without a GPU: "device memory" is
// shared memory of this process, which another process opens by its handle as CUDA IPC does. With it
// the engine for CUDA runs its nvlink_intra transport between two processes, and gpu-bench.sh can be
// rehearsed as it is. Copies are done when the call returns. Build and use:
//
//   echo 'libcudart.so.13 { *; };' > map
//   g++ -shared -fPIC -O2 -o fake/libcudart.so.13 fake_cuda.cpp -Wl,-soname,libcudart.so.13,--version-script=map
//   g++ -shared -fPIC -O2 -o fake/libcuda.so.1 -Wl,-soname,libcuda.so.1 fake/libcudart.so.13
//   LD_LIBRARY_PATH=fake ./run.sh --quick
//
// The driver's library holds nothing of its own: its functions are found in the runtime's.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

struct Block {
    size_t size;
    int fd;
};

std::mutex lock;
std::map<uintptr_t, Block> blocks;  // of this process
std::map<uintptr_t, size_t> opened;

constexpr int kInvalid = 1;

}  // namespace

struct IpcHandle {
    char path[64];
};

struct PointerAttributes {
    int type;
    int device;
    void *device_pointer;
    void *host_pointer;
};

FAKE int cudaMalloc(void **into, size_t size) {
    int fd = memfd_create("fake-cuda", 0);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(size))) return 2;
    void *at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return 2;
    std::lock_guard<std::mutex> guard(lock);
    blocks[reinterpret_cast<uintptr_t>(at)] = {size, fd};
    *into = at;
    return 0;
}

static bool find(uintptr_t at, uintptr_t *base, Block *block) {
    std::lock_guard<std::mutex> guard(lock);
    auto after = blocks.upper_bound(at);
    if (after == blocks.begin()) return false;
    auto found = std::prev(after);
    if (at - found->first >= found->second.size) return false;
    *base = found->first;
    *block = found->second;
    return true;
}

FAKE int cudaFree(void *) { return 0; }
FAKE int cudaMallocHost(void **into, size_t size) { return (*into = malloc(size)) ? 0 : 2; }
FAKE int cudaHostAlloc(void **into, size_t size, unsigned) { return cudaMallocHost(into, size); }
FAKE int cudaFreeHost(void *at) {
    free(at);
    return 0;
}
FAKE int cudaHostRegister(void *, size_t, unsigned) { return 0; }
FAKE int cudaHostUnregister(void *) { return 0; }
FAKE int cudaMemset(void *at, int value, size_t size) {
    memset(at, value, size);
    return 0;
}
FAKE int cudaMemcpy(void *to, const void *from, size_t size, int) {
    memcpy(to, from, size);
    return 0;
}
FAKE int cudaMemcpyAsync(void *to, const void *from, size_t size, int, void *) {
    memcpy(to, from, size);
    return 0;
}
FAKE int cudaMemcpyBatchAsync(void **to, void **from, size_t *sizes, size_t count, void *attributes,
                              size_t *, size_t kinds, void *stream) {
    if (!attributes || kinds != 1 || *static_cast<int *>(attributes) != 1 || !stream) return kInvalid;
    for (size_t i = 0; i < count; i++) memcpy(to[i], from[i], sizes[i]);
    return 0;
}
FAKE int cudaStreamCreateWithFlags(void **into, unsigned) { return (*into = malloc(1)) ? 0 : 2; }
FAKE int cudaStreamDestroy(void *stream) {
    free(stream);
    return 0;
}
FAKE int cudaStreamQuery(void *) { return 0; }
FAKE int cudaStreamSynchronize(void *) { return 0; }
FAKE int cudaEventCreateWithFlags(void **into, unsigned) { return (*into = malloc(1)) ? 0 : 2; }
FAKE int cudaEventDestroy(void *event) {
    free(event);
    return 0;
}
FAKE int cudaEventRecord(void *, void *) { return 0; }
FAKE int cudaEventSynchronize(void *) { return 0; }
FAKE int cudaDeviceSynchronize() { return 0; }
FAKE int cudaGetLastError() { return 0; }
FAKE const char *cudaGetErrorString(int code) { return code == 600 ? "not ready" : "fake error"; }
FAKE int cudaSetDevice(int) { return 0; }
FAKE int cudaGetDevice(int *device) {
    *device = 0;
    return 0;
}
FAKE int cudaGetDeviceCount(int *count) {
    *count = 1;
    return 0;
}
FAKE int cudaGetDeviceProperties(void *properties, int) {
    snprintf(static_cast<char *>(properties), 256, "fake");
    return 0;
}
FAKE int cudaDeviceGetPCIBusId(char *into, int length, int) {
    snprintf(into, static_cast<size_t>(length), "0000:00:00.0");
    return 0;
}
FAKE int cudaDeviceCanAccessPeer(int *can, int, int) {
    *can = 1;
    return 0;
}
FAKE int cudaDeviceEnablePeerAccess(int, unsigned) { return 0; }
FAKE int cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    *free_bytes = *total = size_t{1} << 34;
    return 0;
}
FAKE int cudaRuntimeGetVersion(int *version) {
    *version = 13000;
    return 0;
}
FAKE int cudaDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}
FAKE int cudaPointerGetAttributes(PointerAttributes *into, const void *at) {
    uintptr_t base;
    Block block;
    bool device = find(reinterpret_cast<uintptr_t>(at), &base, &block);
    *into = {device ? 2 : 0, device ? 0 : -2, const_cast<void *>(at), nullptr};
    return 0;
}
FAKE int cudaIpcGetMemHandle(IpcHandle *into, void *at) {
    uintptr_t base;
    Block block;
    if (!find(reinterpret_cast<uintptr_t>(at), &base, &block)) return kInvalid;
    memset(into, 0, sizeof *into);
    snprintf(into->path, sizeof into->path, "/proc/%d/fd/%d", getpid(), block.fd);
    return 0;
}
FAKE int cudaIpcOpenMemHandle(void **into, IpcHandle handle, unsigned) {
    int fd = open(handle.path, O_RDWR);
    struct stat file;
    if (fd < 0 || fstat(fd, &file)) return kInvalid;
    void *at = mmap(nullptr, static_cast<size_t>(file.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return kInvalid;
    std::lock_guard<std::mutex> guard(lock);
    opened[reinterpret_cast<uintptr_t>(at)] = static_cast<size_t>(file.st_size);
    *into = at;
    return 0;
}
FAKE int cudaIpcCloseMemHandle(void *at) {
    std::lock_guard<std::mutex> guard(lock);
    auto found = opened.find(reinterpret_cast<uintptr_t>(at));
    if (found == opened.end()) return kInvalid;
    munmap(at, found->second);
    opened.erase(found);
    return 0;
}
FAKE int cuMemGetAddressRange_v2(unsigned long long *base, size_t *size, unsigned long long at) {
    uintptr_t found;
    Block block;
    if (!find(at, &found, &block)) return kInvalid;
    *base = found;
    *size = block.size;
    return 0;
}
FAKE int cuInit(unsigned) { return 0; }
FAKE int cuPointerGetAttribute(void *into, int, unsigned long long) {
    memset(into, 0, sizeof(int));
    return kInvalid;
}
