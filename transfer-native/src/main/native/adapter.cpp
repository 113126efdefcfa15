// The C API of the Mooncake transfer engine, on top of the C++ class in the PyPI wheel's engine.so.
//
// The wheel exports mooncake::TransferEngine but not the C API. This library exports the C API and
// finds the class's members by their mangled names in a library that the caller has opened. It
// follows the Itanium C++ ABI: a member function is called as a function whose first argument is the
// object, and a result that is not trivially copyable travels through a hidden pointer, as it does
// here because the stand-ins below have destructors.
//
// No exception leaves this library: each function answers its failure value, and
// m4j_last_error tells the calling thread what happened.

#include "mooncake_transfer_engine.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#define M4J_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// What mooncake::Status is: a code, and a message that it owns.
struct Status {
    uint16_t code = 0;
    const char *message = nullptr;
    Status() = default;
    Status(const Status &) = delete;
    Status &operator=(const Status &) = delete;
    ~Status() { delete[] message; }
};

struct TaskStatus {
    int state;
    size_t transferred_bytes;
};

struct Buffer {
    void *addr;
    size_t length;
};

// What a const std::vector<T>& refers to in libstdc++, for a T whose size is known only now.
struct VectorView {
    const void *begin;
    const void *end;
    const void *capacity;
};

// The fields of mooncake::Transport::TransferRequest that every release has; what follows them
// differs, and zero is the default of all of it.
struct RequestHead {
    int opcode;
    void *source;
    uint64_t target_id;
    uint64_t target_offset;
    size_t length;
};
constexpr size_t kRequestSizes[] = {48, 56, 64, 72, 80, 88};

// mooncake::Topology is only passed on.
struct Topology;

struct Members {
    void (*construct)(void *, bool, const std::vector<std::string> &);
    void (*destruct)(void *);
    int (*init)(void *, const std::string &, const std::string &, const std::string &, uint64_t);
    void *(*install_transport)(void *, const std::string &, void **);
    int (*uninstall_transport)(void *, const std::string &);
    std::string (*local_ip_and_port)(void *);
    uint64_t (*open_segment)(void *, const std::string &);
    int (*close_segment)(void *, uint64_t);
    int (*remove_local_segment)(void *, const std::string &);
    int (*sync_segment_cache)(void *, const std::string &);
    int (*register_memory)(void *, void *, size_t, const std::string &, bool, bool);
    int (*unregister_memory)(void *, void *, bool);
    int (*register_batch)(void *, const std::vector<Buffer> &, const std::string &);
    int (*unregister_batch)(void *, const std::vector<void *> &);
    uint64_t (*allocate_batch)(void *, size_t);
    Status (*free_batch)(void *, uint64_t);
    Status (*submit)(void *, uint64_t, const VectorView &);
    Status (*task_status)(void *, uint64_t, size_t, TaskStatus &);
    std::shared_ptr<Topology> (*local_topology)(void *);
    // One of the two: 0.3.14 takes a bool more, whose default is false.
    int (*discover)(Topology *, const std::vector<std::string> &);
    int (*discover_with)(Topology *, const std::vector<std::string> &, bool);
    // May be missing in old releases.
    std::string (*show_links)(const void *, bool);
};

Members members;
size_t request_size = 0;  // 0 until a library is bound

thread_local std::string last_error;

// An engine of the class, three shared_ptr and a bool in the releases known, with room to grow.
struct Engine {
    alignas(16) unsigned char object[1024];
    std::vector<std::string> devices;
};

void *object(void *engine) { return static_cast<Engine *>(engine)->object; }

// The border: runs the body where a library is bound, and turns exceptions into `failure`.
template <typename Result, typename Body>
Result guarded(Result failure, Body body) noexcept {
    try {
        last_error.clear();
        if (request_size == 0) {
            last_error = "no engine library is bound";
            return failure;
        }
        return body();
    } catch (const std::exception &e) {
        try {
            last_error = e.what();
        } catch (...) {
            // Out of memory for the text; the failure value still tells.
        }
        return failure;
    } catch (...) {
        return failure;
    }
}

int told(const Status &status) {
    if (status.code != 0) last_error = status.message ? status.message : "";
    return status.code;
}

int unsupported(const char *what) {
    return guarded(-1, [&]() -> int {
        last_error = std::string(what) + " is not supported by this adapter";
        return -1;
    });
}

std::string text(const char *chars) { return chars ? chars : ""; }

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define MEMBER "_ZN8mooncake14TransferEngine"

template <typename Function>
bool find(void *library, const char *symbol, Function &into, std::string &missing) {
    void *found = dlsym(library, symbol);
    if (!found) {
        missing += missing.empty() ? "" : " ";
        missing += symbol;
        return false;
    }
    into = reinterpret_cast<Function>(found);
    return true;
}

bool resolve(void *library, std::string &missing) {
    Members &m = members;
    find(library, MEMBER "C1EbRKSt6vectorI" STRING "SaIS7_EE", m.construct, missing);
    find(library, MEMBER "D1Ev", m.destruct, missing);
    find(library, MEMBER "4initERK" STRING "S8_S8_m", m.init, missing);
    find(library, MEMBER "16installTransportERK" STRING "PPv", m.install_transport, missing);
    find(library, MEMBER "18uninstallTransportERK" STRING, m.uninstall_transport, missing);
    find(library, MEMBER "17getLocalIpAndPortB5cxx11Ev", m.local_ip_and_port, missing);
    find(library, MEMBER "11openSegmentERK" STRING, m.open_segment, missing);
    find(library, MEMBER "12closeSegmentEm", m.close_segment, missing);
    find(library, MEMBER "18removeLocalSegmentERK" STRING, m.remove_local_segment, missing);
    find(library, MEMBER "16syncSegmentCacheERK" STRING, m.sync_segment_cache, missing);
    find(library, MEMBER "19registerLocalMemoryEPvmRK" STRING "bb", m.register_memory, missing);
    find(library, MEMBER "21unregisterLocalMemoryEPvb", m.unregister_memory, missing);
    find(library,
         MEMBER "24registerLocalMemoryBatchERKSt6vectorINS_9Transport11BufferEntryESaIS3_EERK" STRING,
         m.register_batch, missing);
    find(library, MEMBER "26unregisterLocalMemoryBatchERKSt6vectorIPvSaIS2_EE", m.unregister_batch,
         missing);
    find(library, MEMBER "15allocateBatchIDEm", m.allocate_batch, missing);
    find(library, MEMBER "11freeBatchIDEm", m.free_batch, missing);
    find(library,
         MEMBER "14submitTransferEmRKSt6vectorINS_9Transport15TransferRequestESaIS3_EE", m.submit,
         missing);
    find(library, MEMBER "17getTransferStatusEmmRNS_9Transport14TransferStatusE", m.task_status,
         missing);
    find(library, MEMBER "16getLocalTopologyEv", m.local_topology, missing);
    std::string optional;
    if (!find(library, "_ZN8mooncake8Topology8discoverERKSt6vectorI" STRING "SaIS7_EEb",
              m.discover_with, optional)) {
        find(library, "_ZN8mooncake8Topology8discoverERKSt6vectorI" STRING "SaIS7_EE", m.discover,
             missing);
    }
    if (!find(library, "_ZNK8mooncake14TransferEngine9showLinksB5cxx11Eb", m.show_links, optional)) {
        m.show_links = nullptr;
    }
    return missing.empty();
}

void *create(const std::string &metadata, const std::string &server, const std::string &host,
             uint64_t port, bool auto_discover, std::vector<std::string> devices) {
    auto engine = std::make_unique<Engine>();
    memset(engine->object, 0, sizeof engine->object);
    engine->devices = std::move(devices);
    members.construct(engine->object, auto_discover, engine->devices);
    int failed;
    try {
        failed = members.init(engine->object, metadata, server, host, port);
    } catch (...) {
        members.destruct(engine->object);
        throw;
    }
    if (failed) {
        last_error = "init answered " + std::to_string(failed);
        members.destruct(engine->object);
        return nullptr;
    }
    return engine.release();
}

void destroy(void *engine) {
    std::unique_ptr<Engine> owned(static_cast<Engine *>(engine));
    members.destruct(owned->object);
}

// Requests in the library's own layout, kept by each thread for its next call.
const VectorView requests(const struct transfer_request *entries, size_t count, size_t size) {
    thread_local std::vector<uint64_t> kept;
    const size_t words = size / sizeof(uint64_t);
    if (kept.size() < count * words) kept.resize(count * words);
    uint64_t *at = kept.data();
    for (size_t i = 0; i < count; i++, at += words) {
        const struct transfer_request &entry = entries[i];
        RequestHead head{};
        head.opcode = entry.opcode;
        head.source = entry.source;
        head.target_id = static_cast<uint64_t>(entry.target_id);
        head.target_offset = entry.target_offset;
        head.length = entry.length;
        memcpy(at, &head, sizeof head);
        memset(reinterpret_cast<char *>(at) + sizeof head, 0, size - sizeof head);
    }
    return VectorView{kept.data(), kept.data() + count * words, kept.data() + count * words};
}

// Whether two requests of this size are taken as two, and move their bytes.
bool accepts(void *engine, uint64_t segment, unsigned char *memory, size_t size, bool &stuck) {
    constexpr size_t kPiece = 1024;
    memset(memory, 0x5a, kPiece);
    memset(memory + kPiece, 0xa5, kPiece);
    memset(memory + 4 * kPiece, 0, 4 * kPiece);
    struct transfer_request pair[2] = {};
    for (int i = 0; i < 2; i++) {
        pair[i].opcode = OPCODE_WRITE;
        pair[i].source = memory + i * kPiece;
        pair[i].target_id = static_cast<int32_t>(segment);
        pair[i].target_offset = reinterpret_cast<uint64_t>(memory + (4 + 2 * i) * kPiece);
        pair[i].length = kPiece;
    }
    uint64_t batch = members.allocate_batch(object(engine), 2);
    bool taken;
    {
        Status submitted = members.submit(object(engine), batch, requests(pair, 2, size));
        taken = submitted.code == 0;
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    bool right = taken;
    for (size_t task = 0; taken && task < 2; task++) {
        while (true) {
            TaskStatus status{STATUS_WAITING, 0};
            Status asked = members.task_status(object(engine), batch, task, status);
            if (asked.code != 0) {
                right = false;  // one request only: two of this size are one of another
                break;
            }
            if (status.state == STATUS_COMPLETED) break;
            if (status.state != STATUS_WAITING && status.state != STATUS_PENDING) {
                right = false;
                break;
            }
            if (std::chrono::steady_clock::now() > deadline) {
                stuck = true;
                return false;
            }
            usleep(100);
        }
    }
    Status freed = members.free_batch(object(engine), batch);
    if (freed.code != 0) stuck = true;
    if (!right || stuck) return false;
    // Old releases call a write complete when it is sent: its bytes may come a little later.
    while (memcmp(memory, memory + 4 * kPiece, kPiece) != 0 ||
           memcmp(memory + kPiece, memory + 6 * kPiece, kPiece) != 0) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        usleep(100);
    }
    return memory[5 * kPiece] == 0 && memory[7 * kPiece] == 0;
}

// The size of a TransferRequest in this library, found by trying on an engine that is thrown away:
// it has grown from release to release and nothing in the library tells it. With two requests in a
// batch for two, a wrong size makes another number of them, which is refused or moves other bytes.
// `engine` is left to the caller to be destroyed, or null where it must not be.
size_t probe(const std::string &server, void *&engine, std::string &why) {
    engine = create("P2PHANDSHAKE", server, "", 0, false, {});
    if (!engine) {
        why = "the engine does not start: " + last_error;
        return 0;
    }
    // Never freed where a batch does not end, since the engine may still write to it.
    auto *memory = static_cast<unsigned char *>(aligned_alloc(4096, 8192));
    bool stuck = false;
    size_t found = 0;
    if (!memory) {
        why = "out of memory";
    } else if (!members.install_transport(object(engine), "tcp", nullptr)) {
        why = "it has no tcp transport to be tried with";
    } else if (int code = members.register_memory(object(engine), memory, 8192, "cpu:0", true, true)) {
        why = "registering 8 KiB answered " + std::to_string(code);
    } else {
        std::string self = members.local_ip_and_port(object(engine));
        uint64_t segment = members.open_segment(object(engine), self);
        if (static_cast<int32_t>(segment) < 0) {
            why = "its own segment " + self + " does not open";
        } else {
            for (size_t size : kRequestSizes) {
                if (accepts(engine, segment, memory, size, stuck)) {
                    found = size;
                    break;
                }
                if (stuck) break;
            }
            if (!found) {
                why = stuck ? "a write to itself over tcp does not end"
                            : "it takes no transfer request of 48, 56, 64, 72, 80 or 88 bytes";
            }
        }
        if (!stuck) members.unregister_memory(object(engine), memory, true);
    }
    if (stuck) {
        engine = nullptr;
    } else {
        free(memory);
    }
    return found;
}

size_t copied(const std::string &from, char *to, size_t length) {
    if (to && length > 0) snprintf(to, length, "%s", from.c_str());
    return from.size();
}

std::vector<std::string> split(const char *commas) {
    std::vector<std::string> parts;
    std::string part;
    for (const char *c = commas ? commas : ""; *c; c++) {
        if (*c == ',') {
            if (!part.empty()) parts.push_back(part);
            part.clear();
        } else {
            part += *c;
        }
    }
    if (!part.empty()) parts.push_back(part);
    return parts;
}

}  // namespace

// ---- The adapter's own functions

// Binds the adapter to a library that dlopen has opened, once. 0 on success; otherwise `why` holds
// the reason. `server` is the loopback address that it is tried at. `throwaway`, where it is set, is
// the engine it was tried on, to be destroyed by the caller: that can take a second.
M4J_EXPORT int m4j_bind(void *library, const char *server, void **throwaway, char *why,
                        size_t length) {
    std::string reason;
    *throwaway = nullptr;
    try {
        if (request_size != 0) {
            reason = "a library is bound already";
        } else if (std::string missing; !resolve(library, missing)) {
            reason = "it lacks " + missing;
        } else {
            request_size = probe(text(server), *throwaway, reason);
            if (request_size != 0) return 0;
            if (*throwaway) destroy(*throwaway);
            *throwaway = nullptr;
        }
    } catch (const std::exception &e) {
        reason = std::string("trying it failed: ") + e.what();
    } catch (...) {
        reason = "trying it failed with an unknown exception";
    }
    copied(reason, why, length);
    return -1;
}

// Bytes of a transfer request in the bound library; 0 where none is bound.
M4J_EXPORT size_t m4j_request_size() { return request_size; }

// What the calling thread's last failed call said; empty where it said nothing.
M4J_EXPORT size_t m4j_last_error(char *into, size_t length) { return copied(last_error, into, length); }

// createTransferEngine with a whitelist of RDMA devices, separated by commas.
M4J_EXPORT void *m4j_create(const char *metadata, const char *server, const char *devices) {
    return guarded<void *>(nullptr, [&]() -> void * {
        return create(text(metadata), text(server), "", 0, false, split(devices));
    });
}

// ---- The C API

M4J_EXPORT void *createTransferEngine(const char *metadata_conn_string,
                                      const char *local_server_name, const char *ip_or_host_name,
                                      uint64_t rpc_port, int auto_discover) {
    return guarded<void *>(nullptr, [&]() -> void * {
        return create(text(metadata_conn_string), text(local_server_name), text(ip_or_host_name),
                      rpc_port, auto_discover != 0, {});
    });
}

M4J_EXPORT void destroyTransferEngine(void *engine) {
    guarded(0, [&]() -> int {
        destroy(engine);
        return 0;
    });
}

M4J_EXPORT int discoverTopology(void *engine) {
    return guarded(-1, [&]() -> int {
        auto topology = members.local_topology(object(engine));
        const auto &devices = static_cast<Engine *>(engine)->devices;
        return members.discover_with ? members.discover_with(topology.get(), devices, false)
                                     : members.discover(topology.get(), devices);
    });
}

M4J_EXPORT int getLocalIpAndPort(void *engine, char *buf_out, size_t buf_len) {
    return guarded(-1, [&]() -> int {
        copied(members.local_ip_and_port(object(engine)), buf_out, buf_len);
        return 0;
    });
}

// Would install signal handlers that end the process without the host's shutdown hooks.
M4J_EXPORT void enableGracefulShutdown(void *) { unsupported("enableGracefulShutdown"); }

M4J_EXPORT void *installTransport(void *engine, const char *proto, void **args) {
    return guarded<void *>(nullptr, [&]() -> void * {
        return members.install_transport(object(engine), text(proto), args);
    });
}

M4J_EXPORT int uninstallTransport(void *engine, const char *proto) {
    return guarded(-1, [&]() -> int {
        return members.uninstall_transport(object(engine), text(proto));
    });
}

M4J_EXPORT int32_t openSegment(void *engine, const char *segment_name) {
    return guarded<int32_t>(-1, [&]() -> int32_t {
        return static_cast<int32_t>(members.open_segment(object(engine), text(segment_name)));
    });
}

M4J_EXPORT int32_t openSegmentNoCache(void *engine, const char *segment_name) {
    return guarded<int32_t>(-1, [&]() -> int32_t {
        if (members.sync_segment_cache(object(engine), text(segment_name)) != 0) return -1;
        return static_cast<int32_t>(members.open_segment(object(engine), text(segment_name)));
    });
}

M4J_EXPORT int closeSegment(void *engine, int32_t segment_id) {
    return guarded(-1, [&]() -> int {
        return members.close_segment(object(engine), static_cast<uint64_t>(segment_id));
    });
}

M4J_EXPORT int removeLocalSegment(void *engine, const char *segment_name) {
    return guarded(-1, [&]() -> int {
        return members.remove_local_segment(object(engine), text(segment_name));
    });
}

M4J_EXPORT int syncSegmentCache(void *engine) {
    return guarded(-1, [&]() -> int { return members.sync_segment_cache(object(engine), ""); });
}

M4J_EXPORT int warmupEfaSegment(void *, const char *) { return unsupported("warmupEfaSegment"); }

M4J_EXPORT int registerLocalMemory(void *engine, void *addr, size_t length, const char *location,
                                   int remote_accessible) {
    return guarded(-1, [&]() -> int {
        return members.register_memory(object(engine), addr, length, text(location),
                                       remote_accessible != 0, true);
    });
}

M4J_EXPORT int unregisterLocalMemory(void *engine, void *addr) {
    return guarded(-1,
                   [&]() -> int { return members.unregister_memory(object(engine), addr, true); });
}

M4J_EXPORT int registerLocalMemoryBatch(void *engine, struct buffer_entry *buffer_list,
                                        size_t buffer_len, const char *location) {
    return guarded(-1, [&]() -> int {
        std::vector<Buffer> buffers;
        buffers.reserve(buffer_len);
        for (size_t i = 0; i < buffer_len; i++) {
            buffers.push_back({buffer_list[i].addr, buffer_list[i].length});
        }
        return members.register_batch(object(engine), buffers, text(location));
    });
}

M4J_EXPORT int unregisterLocalMemoryBatch(void *engine, void **addr_list, size_t addr_len) {
    return guarded(-1, [&]() -> int {
        std::vector<void *> addresses(addr_list, addr_list + addr_len);
        return members.unregister_batch(object(engine), addresses);
    });
}

M4J_EXPORT uint64_t allocateBatchID(void *engine, size_t batch_size) {
    return guarded<uint64_t>(
        UINT64_MAX, [&]() -> uint64_t { return members.allocate_batch(object(engine), batch_size); });
}

M4J_EXPORT int submitTransfer(void *engine, uint64_t batch_id, struct transfer_request *entries,
                              size_t count) {
    return guarded(-1, [&]() -> int {
        return told(members.submit(object(engine), batch_id, requests(entries, count, request_size)));
    });
}

M4J_EXPORT int submitTransferWithNotify(void *, uint64_t, struct transfer_request *, size_t,
                                        struct notify_msg) {
    return unsupported("submitTransferWithNotify");
}

M4J_EXPORT int getTransferStatus(void *engine, uint64_t batch_id, size_t task_id,
                                 struct transfer_status *status) {
    return guarded(-1, [&]() -> int {
        TaskStatus found{STATUS_WAITING, 0};
        int code = told(members.task_status(object(engine), batch_id, task_id, found));
        if (code == 0) {
            status->status = found.state;
            status->transferred_bytes = found.transferred_bytes;
        }
        return code;
    });
}

M4J_EXPORT int freeBatchID(void *engine, uint64_t batch_id) {
    return guarded(-1, [&]() -> int { return told(members.free_batch(object(engine), batch_id)); });
}

M4J_EXPORT struct notify_msg *getNotifsFromEngine(void *, int *size) {
    if (size) *size = 0;
    unsupported("getNotifsFromEngine");
    return nullptr;
}

M4J_EXPORT int freeNotifsMsgBuf(struct notify_msg *, int) { return unsupported("freeNotifsMsgBuf"); }

M4J_EXPORT int genNotifyInEngine(void *, uint64_t, struct notify_msg) {
    return unsupported("genNotifyInEngine");
}

M4J_EXPORT int getNicLoadStats(void *, struct nic_load_stat *, size_t *count) {
    if (count) *count = 0;
    return unsupported("getNicLoadStats");
}

M4J_EXPORT int showLinks(void *engine, char *buf_out, size_t buf_len, int json) {
    return guarded(-1, [&]() -> int {
        if (!members.show_links || !buf_out || buf_len == 0) return -1;
        copied(members.show_links(object(engine), json != 0), buf_out, buf_len);
        return 0;
    });
}
