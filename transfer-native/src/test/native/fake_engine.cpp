// An engine in memory with the C API of libtransfer_engine.so, for tests.
//
// It copies bytes between engines of one process. What goes wrong is told by its fake_ functions,
// and it counts what a caller must never do: free a batch early or twice, use it after it is freed,
// destroy an engine below its batches.

#include "mooncake_transfer_engine.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

// By this text a library is known to acknowledge its tcp writes.
EXPORT const char fake_protocol[] = "MC_TCP_PROTO";

namespace {

struct Task {
    struct transfer_request request;
    int target;
    int state;
};

struct Engine;

struct Batch {
    Engine *engine;
    size_t capacity;
    bool held;
    std::vector<Task> tasks;
    std::chrono::steady_clock::time_point seen_done{};  // when somebody was told of the last task
};

struct Engine {
    std::string host;
    int port;
    std::map<uint64_t, uint64_t> memory;
    std::map<std::string, int32_t> segments;
    std::map<int32_t, int> ports;
    int32_t next_segment = 1;
};

std::mutex lock;
std::map<int, Engine *> engines;
std::set<Batch *> batches;
int next_port = 20000;

int hold = 0;            // submits to come whose tasks do not move
int fail_task = -1;      // the task of the next submit that fails
int refuse_submit = 0;   // code of the next submit, of which half is taken
int refuse_batches = 0;  // batches to come that are refused
int timeout_once = 0;    // tasks to come that report TIMEOUT before they go on
int busy_frees = 0;      // frees to come that are refused
std::atomic<int> hang_open{0};

struct Counts {
    int early_frees, hasty_frees, double_frees, uses_after_free, destroyed_below, submits, in_flight,
        max_in_flight, destroyed, opens;
} counts;

bool covers(const std::map<uint64_t, uint64_t> &memory, uint64_t at, uint64_t length) {
    auto after = memory.upper_bound(at);
    if (after == memory.begin()) return false;
    auto range = std::prev(after);
    return at - range->first < range->second && length <= range->second - (at - range->first);
}

void move(Task &task) {
    auto target = engines.find(task.target);
    if (target == engines.end() ||
        !covers(target->second->memory, task.request.target_offset, task.request.length)) {
        task.state = STATUS_FAILED;
    } else {
        memcpy(reinterpret_cast<void *>(task.request.target_offset), task.request.source,
               task.request.length);
        task.state = STATUS_COMPLETED;
    }
    counts.in_flight--;
}

bool ended(int state) { return state == STATUS_COMPLETED || state == STATUS_FAILED; }

}  // namespace

// ---- What goes wrong

EXPORT void fake_hold(int submits) {
    std::lock_guard<std::mutex> guard(lock);
    hold = submits;
}

// Lets what is held go on, to its end or to failure.
EXPORT void fake_release(int fail) {
    std::lock_guard<std::mutex> guard(lock);
    hold = 0;
    for (Batch *batch : batches) {
        if (!batch->held) continue;
        batch->held = false;
        for (Task &task : batch->tasks) {
            if (ended(task.state)) continue;
            if (fail) {
                task.state = STATUS_FAILED;
                counts.in_flight--;
            } else {
                move(task);
            }
        }
    }
}

EXPORT void fake_fail_task(int task) {
    std::lock_guard<std::mutex> guard(lock);
    fail_task = task;
}

EXPORT void fake_refuse_submit(int code) {
    std::lock_guard<std::mutex> guard(lock);
    refuse_submit = code;
}

EXPORT void fake_refuse_batches(int count) {
    std::lock_guard<std::mutex> guard(lock);
    refuse_batches = count;
}

EXPORT void fake_timeout_once(int tasks) {
    std::lock_guard<std::mutex> guard(lock);
    timeout_once = tasks;
}

EXPORT void fake_busy_frees(int frees) {
    std::lock_guard<std::mutex> guard(lock);
    busy_frees = frees;
}

EXPORT void fake_next_port(int port) {
    std::lock_guard<std::mutex> guard(lock);
    next_port = port;
}

// While set, the peer at port 9 answers nothing.
EXPORT void fake_hang_open(int hang) { hang_open = hang; }

EXPORT int fake_count(const char *what) {
    std::lock_guard<std::mutex> guard(lock);
    std::string name = what;
    if (name == "early_frees") return counts.early_frees;
    if (name == "hasty_frees") return counts.hasty_frees;
    if (name == "double_frees") return counts.double_frees;
    if (name == "uses_after_free") return counts.uses_after_free;
    if (name == "destroyed_below") return counts.destroyed_below;
    if (name == "submits") return counts.submits;
    if (name == "in_flight") return counts.in_flight;
    if (name == "max_in_flight") return counts.max_in_flight;
    if (name == "batches") return static_cast<int>(batches.size());
    if (name == "engines") return static_cast<int>(engines.size());
    if (name == "opens") return counts.opens;
    return -1;
}

EXPORT void fake_reset() {
    std::lock_guard<std::mutex> guard(lock);
    int in_flight = counts.in_flight;
    counts = Counts{};
    counts.in_flight = in_flight;
    hold = refuse_submit = refuse_batches = timeout_once = busy_frees = 0;
    fail_task = -1;
    hang_open = 0;
}

// ---- The C API

EXPORT void *createTransferEngine(const char *, const char *local_server_name, const char *,
                                  uint64_t, int) {
    std::lock_guard<std::mutex> guard(lock);
    if (std::string(local_server_name) == "refused") return nullptr;
    auto *engine = new Engine();
    engine->host = local_server_name;
    engine->port = next_port++;
    engines[engine->port] = engine;
    return engine;
}

EXPORT void destroyTransferEngine(void *opaque) {
    std::lock_guard<std::mutex> guard(lock);
    auto *engine = static_cast<Engine *>(opaque);
    for (Batch *batch : batches) {
        if (batch->engine == engine) counts.destroyed_below++;
    }
    engines.erase(engine->port);
    counts.destroyed++;
    delete engine;
}

EXPORT int discoverTopology(void *) { return 0; }

EXPORT int getLocalIpAndPort(void *opaque, char *buf_out, size_t buf_len) {
    auto *engine = static_cast<Engine *>(opaque);
    snprintf(buf_out, buf_len, "%s:%d", engine->host.c_str(), engine->port);
    return 0;
}

EXPORT void *installTransport(void *engine, const char *proto, void **) {
    std::string name = proto;
    return name == "tcp" || name == "nvlink_intra" ? engine : nullptr;
}

EXPORT int32_t openSegment(void *opaque, const char *segment_name) {
    auto *engine = static_cast<Engine *>(opaque);
    std::string name = segment_name;
    int port = atoi(name.substr(name.rfind(':') + 1).c_str());
    while (port == 9 && hang_open) usleep(1000);
    std::lock_guard<std::mutex> guard(lock);
    counts.opens++;
    auto known = engine->segments.find(name);
    if (known != engine->segments.end()) return known->second;
    if (!engines.count(port)) return -1;
    int32_t id = engine->next_segment++;
    engine->segments[name] = id;
    engine->ports[id] = port;
    return id;
}

EXPORT int32_t openSegmentNoCache(void *engine, const char *segment_name) {
    return openSegment(engine, segment_name);
}

EXPORT int removeLocalSegment(void *opaque, const char *segment_name) {
    std::lock_guard<std::mutex> guard(lock);
    auto *engine = static_cast<Engine *>(opaque);
    auto known = engine->segments.find(segment_name);
    if (known != engine->segments.end()) {
        engine->ports.erase(known->second);
        engine->segments.erase(known);
    }
    return 0;
}

EXPORT int registerLocalMemory(void *opaque, void *addr, size_t length, const char *location, int) {
    std::lock_guard<std::mutex> guard(lock);
    if (std::string(location) == "cuda:9") return -202;
    static_cast<Engine *>(opaque)->memory[reinterpret_cast<uint64_t>(addr)] = length;
    return 0;
}

EXPORT int unregisterLocalMemory(void *opaque, void *addr) {
    std::lock_guard<std::mutex> guard(lock);
    return static_cast<Engine *>(opaque)->memory.erase(reinterpret_cast<uint64_t>(addr)) ? 0 : -3;
}

EXPORT uint64_t allocateBatchID(void *engine, size_t batch_size) {
    std::lock_guard<std::mutex> guard(lock);
    if (refuse_batches > 0) {
        refuse_batches--;
        return UINT64_MAX;
    }
    auto *batch = new Batch{static_cast<Engine *>(engine), batch_size, false, {}};
    batches.insert(batch);
    return reinterpret_cast<uint64_t>(batch);
}

EXPORT int submitTransfer(void *opaque, uint64_t batch_id, struct transfer_request *entries,
                          size_t count) {
    std::lock_guard<std::mutex> guard(lock);
    auto *engine = static_cast<Engine *>(opaque);
    auto *batch = reinterpret_cast<Batch *>(batch_id);
    if (!batches.count(batch)) {
        counts.uses_after_free++;
        return 1;
    }
    if (batch->tasks.size() + count > batch->capacity) return 2;
    int code = refuse_submit;
    refuse_submit = 0;
    size_t taken = code ? count / 2 : count;
    counts.submits++;
    if (hold > 0) {
        hold--;
        batch->held = true;
    }
    for (size_t i = 0; i < taken; i++) {
        auto port = engine->ports.find(entries[i].target_id);
        batch->tasks.push_back(
            {entries[i], port == engine->ports.end() ? 0 : port->second, STATUS_WAITING});
        counts.in_flight++;
        if (counts.in_flight > counts.max_in_flight) counts.max_in_flight = counts.in_flight;
        if (static_cast<int>(i) == fail_task) {
            fail_task = -1;
            batch->tasks.back().state = STATUS_FAILED;
            counts.in_flight--;
        } else if (timeout_once > 0) {
            timeout_once--;
            batch->tasks.back().state = STATUS_TIMEOUT;
        } else if (!batch->held) {
            move(batch->tasks.back());
        }
    }
    return code;
}

EXPORT int getTransferStatus(void *, uint64_t batch_id, size_t task_id,
                             struct transfer_status *status) {
    std::lock_guard<std::mutex> guard(lock);
    auto *batch = reinterpret_cast<Batch *>(batch_id);
    if (!batches.count(batch)) {
        counts.uses_after_free++;
        return 1;
    }
    if (task_id >= batch->tasks.size()) return 1;
    Task &task = batch->tasks[task_id];
    status->status = task.state;
    status->transferred_bytes = 0;
    if (ended(task.state)) batch->seen_done = std::chrono::steady_clock::now();
    if (task.state == STATUS_TIMEOUT && !batch->held) move(task);
    return 0;
}

EXPORT int freeBatchID(void *, uint64_t batch_id) {
    std::lock_guard<std::mutex> guard(lock);
    auto *batch = reinterpret_cast<Batch *>(batch_id);
    if (!batches.count(batch)) {
        counts.double_frees++;
        return 1;
    }
    for (const Task &task : batch->tasks) {
        if (!ended(task.state)) {
            counts.early_frees++;
            return 4;
        }
    }
    if (busy_frees > 0) {
        busy_frees--;
        return 5;
    }
    // The engine's own threads may use it for a moment after they have told that it is done.
    if (std::chrono::steady_clock::now() - batch->seen_done < std::chrono::milliseconds(5)) {
        counts.hasty_frees++;
    }
    batches.erase(batch);
    delete batch;
    return 0;
}
