// SPDX-License-Identifier: Apache-2.0
// CUDA's run-time and driver with memory, streams and events of the host, whose kernels compute nothing: for the real CuPy,
// which then checks all that it is asked. null_cudaX takes the place of cudaX, see null_cupy.py; the driver's functions have
// their own names. Statuses are those of CUDA.
//
// It refuses what a device refuses: the driver without a context in the calling thread; functions and streams of another
// device; launches that take more registers, threads or shared memory than there are, read from the machine code; more
// blocks of a cooperative kernel than live at once; clusters that the grid does not fill; and in the capture of a stream
// what must not be captured. After an error of a kernel all calls fail, as on a device, and in a child of a fork all do once
// the parent has used the device.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

typedef void *handle;  // a stream, an event, a module, …

enum {
    INVALID = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400,
    NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, TOO_MANY_RESOURCES = 701, TOO_LARGE = 720, UNSUPPORTED = 900, INVALIDATED = 901,
    NOT_CAPTURING = 905, IMPLICIT = 906, WRONG_THREAD = 908, NOT_UPDATED = 910, INVALID_CLUSTER = 912
};
enum { GLOBAL, OF_THREAD, RELAXED };  // modes of a capture
static const int MULTIPROCESSORS = 132, REGISTERS = 65536, THREADS = 2048, BLOCKS = 32, GIVEN = 48 << 10;
static const int SHARED = 232448, OF_ALL = 233472, RESERVED = 1024;  // bytes of a block, of a multiprocessor, kept of each

struct Kernel {
    std::string name;
    int registers = 0, fixed = 0, threads = 1024;
    unsigned cluster[3] = {1, 1, 1};
    std::map<int, int> parameters;  // number -> bytes
};
struct Module {
    int device;
    std::map<std::string, Kernel> kernels;
};
struct Function {
    Kernel kernel;
    int device, given = GIVEN;  // bytes of dynamic shared memory it may take
    bool large = false;         // clusters of more than 8 blocks
};
typedef void (*HostFunction)(void *);
struct Node {
    Function *function;
    unsigned grid[3], block[3], shared;
    bool together = false;
    std::string arguments;
    Node *origin = nullptr;  // of an executable graph's node
    HostFunction host = nullptr;  // with its argument, instead of a kernel; or a graph
    void *data = nullptr;
    struct Graph *child = nullptr;
};
struct UserObject {
    HostFunction destroy;
    void *data;
    unsigned references;
};
struct Graph {
    std::vector<Node *> nodes;
    std::vector<UserObject *> held;
};
struct Stream {
    int device;
    bool blocking, spoilt = false;
    int mode = -1;  // of a capture
    long long thread = 0;
    unsigned long long number = 0;  // of a capture
    Graph *graph = nullptr;
};
struct PointerAttributes {
    int type, device;
    void *on_device, *on_host;
};
struct NodeParameters {  // CUDA_KERNEL_NODE_PARAMS
    Function *function;
    unsigned grid[3], block[3], shared;
    void **parameters, **extra;
    handle kernel, context;
};

static int devices = 1, fault, lost;  // status of all calls: after an error of a kernel; after a fork
static bool in_use;
static thread_local int thread_mode = GLOBAL;  // of captures, as far as this thread heeds them
static thread_local int current, context = -1;  // of the run-time, and that of the driver if there is one
static std::recursive_mutex lock_;
static std::map<char *, std::pair<size_t, int>> blocks;  // address -> bytes, device
static std::set<Stream *> streams;
static std::string started, refused, failing;
static long long failing_from, failing_to;
static int failing_with;
static size_t capacity = 1ull << 33, taken;  // bytes of all devices together

typedef std::lock_guard<std::recursive_mutex> Held;

static int no(int status, const std::string &why) {
    Held held(lock_);
    refused += why + "\n";
    return status;
}
static long long me() {
    static thread_local char mine;
    return (long long)&mine;
}
// whether a test has this call of a function fail, and with what; an error of a kernel stays
static int failed(const char *name) {
    Held held(lock_);
    if (failing != name) return 0;
    bool now = failing_from-- <= 0 && failing_to-- > 0;
    if (now && failing_with >= ILLEGAL_ADDRESS && failing_with < TOO_LARGE && failing_with != TOO_MANY_RESOURCES) fault = failing_with;
    return now ? failing_with : 0;
}
static int bound() {  // calls of the run-time make a context
    return fault ? fault : (in_use = true, context = current, 0);
}
static void in_child() {
    if (in_use) fault = lost = NOT_INITIALIZED;
}
__attribute__((constructor)) static void at_fork() { pthread_atfork(nullptr, nullptr, in_child); }
static int in_context(const char *name) {
    if (fault) return fault;
    return context < 0 ? no(INVALID_CONTEXT, std::string(name) + " in a thread without a context") : 0;
}
static Stream *of(handle h) { return (size_t)h <= 2 ? nullptr : (Stream *)h; }
// what may disturb a capture, and what takes the default stream
static int unsafe(const char *name) {
    Held held(lock_);
    if (thread_mode == RELAXED) return 0;
    for (Stream *s : streams)
        if ((s->mode == GLOBAL && thread_mode == GLOBAL) || (s->mode >= 0 && s->mode != RELAXED && s->thread == me()))
            return s->spoilt = true, no(UNSUPPORTED, std::string(name) + " while a stream is captured");
    return 0;
}
static int whole(const char *name) {  // waits for everything
    Held held(lock_);
    for (Stream *s : streams)
        if (s->mode >= 0) return s->spoilt = true, no(UNSUPPORTED, std::string(name) + " while a stream is captured");
    return 0;
}
static int used(handle h, const char *name) {  // a stream on which something is started
    Held held(lock_);
    if (Stream *s = of(h)) {
        if (!streams.count(s)) return no(INVALID_HANDLE, std::string(name) + " on a stream that is gone");
        if (s->device != context) return no(INVALID_HANDLE, std::string(name) + " on a stream of another device");
    } else if ((size_t)h < 2) {
        for (Stream *s : streams)
            if (s->mode >= 0 && s->blocking) return s->spoilt = true, no(IMPLICIT, std::string(name) + " on the default stream");
    }
    return 0;
}
static int waited(handle h, const char *name) {  // a stream that the host waits for
    Held held(lock_);
    Stream *s = of(h);
    if (s && s->mode >= 0) return s->spoilt = true, no(UNSUPPORTED, std::string(name) + " of a stream that is captured");
    return used(h, name);
}

static unsigned word(const std::string &s, size_t at) {
    unsigned v;
    return std::memcpy(&v, s.data() + at, 4), v;
}
// What machine code says of its kernels: registers, parameters, bounds of threads, clusters, static shared memory.
static std::map<std::string, Kernel> kernels_of(const char *elf) {
    struct Section {
        unsigned name, type;
        size_t flags, address, offset, size;
        unsigned link, info;
        size_t alignment, entry;
    };
    size_t at;
    unsigned short entry, count, texts;
    std::memcpy(&at, elf + 40, 8), std::memcpy(&entry, elf + 58, 2);
    std::memcpy(&count, elf + 60, 2), std::memcpy(&texts, elf + 62, 2);
    std::vector<Section> all(count);
    for (int k = 0; k < count; k++) std::memcpy(&all[k], elf + at + k * entry, sizeof(Section));
    std::map<std::string, Kernel> found;
    std::vector<std::string> symbols;
    for (auto &s : all)
        if (s.type == 2)
            for (size_t k = s.offset; k < s.offset + s.size; k += s.entry) {
                unsigned name;
                std::memcpy(&name, elf + k, 4);
                symbols.push_back(elf + all[s.link].offset + name);
            }
    auto named = [&](const Section &s) { return std::string(elf + all[texts].offset + s.name); };
    for (auto &s : all)
        if (named(s).rfind(".text.", 0) == 0) found[named(s).substr(6)].name = named(s).substr(6);
    for (auto &s : all) {
        std::string name = named(s);
        if (name.rfind(".nv.shared.", 0) == 0 && found.count(name.substr(11))) found[name.substr(11)].fixed = (int)s.size;
        if (name.rfind(".nv.info", 0)) continue;
        Kernel *kernel = name.size() > 9 && found.count(name.substr(9)) ? &found[name.substr(9)] : nullptr;
        std::string body(elf + s.offset, s.size);
        for (size_t k = 0; k + 4 <= body.size();) {
            int format = body[k], what = body[k + 1];
            size_t bytes = format == 4 ? (unsigned char)body[k + 2] | (unsigned char)body[k + 3] << 8 : 0;
            k += 4;
            if (what == 0x2f && symbols.size() > word(body, k) && found.count(symbols[word(body, k)]))
                found[symbols[word(body, k)]].registers = (int)word(body, k + 4);
            if (kernel && what == 0x05) kernel->threads = (int)(word(body, k) * word(body, k + 4) * word(body, k + 8));
            if (kernel && what == 0x3d)
                for (int d = 0; d < 3; d++) kernel->cluster[d] = word(body, k + 4 * d);
            if (kernel && what == 0x17)
                kernel->parameters[(int)(word(body, k + 4) & 0xffff)] = (int)(word(body, k + 8) >> 18);
            k += bytes;
        }
    }
    for (auto &f : found)  // the run-time's own part of shared memory is counted apart
        f.second.fixed = std::max(0, f.second.fixed - RESERVED);
    return found;
}

// The same of PTX, whose registers are not known: names and parameters, such as ".param .u64 .ptr .align 1 name".
static std::map<std::string, Kernel> kernels_in(const std::string &ptx) {
    std::map<std::string, Kernel> found;
    const std::string entry = ".entry ", parameter = ".param .";
    for (size_t at = ptx.find(entry); at != std::string::npos; at = ptx.find(entry, at)) {
        size_t begin = at + entry.size(), open = ptx.find('(', begin), end = ptx.find(')', open);
        Kernel &k = found[ptx.substr(begin, open - begin)];
        k.name = ptx.substr(begin, open - begin);
        for (at = ptx.find(parameter, open); at < end; at = ptx.find(parameter, at + 1))
            k.parameters[(int)k.parameters.size()] = std::atoi(ptx.c_str() + at + parameter.size() + 1) / 8;
        at = end;
    }
    return found;
}

static int resident(const Kernel &k, int threads, size_t dynamic) {
    int warps = (threads + 31) / 32, registers = (k.registers * 32 + 255) / 256 * 256;
    int found = std::min(BLOCKS, THREADS / (warps * 32));
    if (registers) found = std::min(found, REGISTERS / 4 / registers * 4 / warps);
    size_t shared = ((size_t)k.fixed + dynamic + RESERVED + 127) / 128 * 128;
    return std::min(found, (int)(OF_ALL / shared));
}

static int allowed(const Function *f, const unsigned *grid, const unsigned *block, unsigned shared, bool together) {
    const Kernel &k = f->kernel;
    std::string it = "a launch of " + k.name + ": ";
    size_t threads = (size_t)block[0] * block[1] * block[2];
    if (f->device != context) return no(INVALID_HANDLE, it + "another device");
    if (!threads || !grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffffu || grid[1] > 65535 || grid[2] > 65535)
        return no(INVALID, it + "grid");
    if (threads > (size_t)k.threads || block[2] > 64) return no(INVALID, it + "threads of a block");
    if ((int)shared > f->given || k.fixed + (int)shared > SHARED) return no(INVALID, it + "shared memory");
    int held = resident(k, (int)threads, shared);
    if (held < 1) return no(TOO_MANY_RESOURCES, it + "registers");
    for (int d = 0; d < 3; d++)
        if (k.cluster[d] > 1 && grid[d] % k.cluster[d]) return no(INVALID_CLUSTER, it + "clusters");
    if (k.cluster[0] * k.cluster[1] * k.cluster[2] > (f->large ? 16u : 8u)) return no(INVALID_CLUSTER, it + "blocks of a cluster");
    if (together && (size_t)grid[0] * grid[1] * grid[2] > (size_t)held * MULTIPROCESSORS)
        return no(TOO_LARGE, it + "blocks that live at once");
    return 0;
}

static std::string copied(const Kernel &k, void **parameters) {
    std::string found;
    for (auto &p : k.parameters) found.append((const char *)parameters[p.first], p.second);
    return found;
}

static void run(const Node *n) {
    if (n->child)
        for (const Node *inner : n->child->nodes) run(inner);
    if (n->host) n->host(n->data);
    if (!n->function) return;
    const char *wrong = std::getenv("NULL_CUDA_FAULT"), *hung = std::getenv("NULL_CUDA_HANG");
    const char *deadly = std::getenv("NULL_CUDA_CRASH");
    const Kernel &k = n->function->kernel;
    started += k.name;
    size_t at = 0;
    for (auto &p : k.parameters) {
        unsigned long long v = 0;
        std::memcpy(&v, n->arguments.data() + at, std::min(8, p.second));
        started += " " + std::to_string(v), at += p.second;
    }
    started += "\n";
    if (wrong && k.name.find(wrong) != std::string::npos) fault = ILLEGAL_ADDRESS;
    if (deadly && k.name.find(deadly) != std::string::npos) std::abort();
    if (hung && k.name.find(hung) != std::string::npos)
        while (true) sleep(1);
}

static int start(Function *f, const unsigned *grid, const unsigned *block, unsigned shared, handle stream, void **parameters,
                 bool together) {
    Held held(lock_);
    if (int s = in_context("a launch")) return s;
    if (int s = failed("a launch")) return s;
    if (int s = used(stream, "a launch")) return s;
    if (int s = allowed(f, grid, block, shared, together)) return s;
    Node *n = new Node{f, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared, together, copied(f->kernel, parameters)};
    Stream *s = of(stream);
    if (s && s->mode >= 0)
        s->graph->nodes.push_back(n);
    else
        run(n), delete n;
    return 0;
}

static void release(UserObject *object, unsigned count) {
    if (object->references -= count) return;
    object->destroy(object->data);
    delete object;
}
static Graph *copy_of(const Graph *graph) {
    Graph *made = new Graph;
    made->held = graph->held;
    for (UserObject *object : made->held) ++object->references;
    for (const Node *n : graph->nodes) {
        made->nodes.push_back(new Node(*n));
        if (n->child) made->nodes.back()->child = copy_of(n->child);
    }
    return made;
}
static void destroy(Graph *graph) {
    for (Node *n : graph->nodes) {
        if (n->child) destroy(n->child);
        delete n;
    }
    for (UserObject *object : graph->held) release(object, 1);
    delete graph;
}
// Whether two graphs have the same nodes, as far as CUDA wants it where one takes the place of the other.
static bool alike(const Graph *a, const Graph *b) {
    if (a->nodes.size() != b->nodes.size()) return false;
    for (size_t k = 0; k < a->nodes.size(); ++k)
        if (!a->nodes[k]->host != !b->nodes[k]->host || !a->nodes[k]->function != !b->nodes[k]->function) return false;
    return true;
}

static int begin_capture(handle h, int mode) {
    Stream *s = of(h);
    if (!s || s->mode >= 0) return no(UNSUPPORTED, "the capture of this stream");
    static unsigned long long captures;
    return s->number = ++captures, s->mode = mode, s->spoilt = false, s->thread = me(), s->graph = new Graph, 0;
}
static int end_capture(handle h, Graph **graph) {
    Stream *s = of(h);
    *graph = nullptr;
    if (!s || s->mode < 0) return NOT_CAPTURING;
    if (s->mode != RELAXED && s->thread != me()) return no(WRONG_THREAD, "the end of a capture in another thread");
    s->mode = -1;
    if (s->spoilt) return destroy(s->graph), INVALIDATED;
    return *graph = s->graph, 0;
}

static int launch(Graph *graph, handle stream) {
    Held held(lock_);
    if (int s = used(stream, "a graph's launch")) return s;
    if (int s = failed("a graph's launch")) return s;
    Stream *s = of(stream);
    for (Node *n : graph->nodes) {
        if (n->function && n->function->device != context) return no(INVALID_HANDLE, "a graph's launch: another device");
        if (s && s->mode >= 0)
            s->graph->nodes.push_back(new Node(*n));  // as it is now
        else
            run(n);
    }
    return 0;
}

extern "C" {
void null_devices(int n) { devices = n; }
// Calls of a function fail: first those that are left alone, then those that do not. Returns how many are left to fail.
long long null_fail(const char *name, long long after, long long count, int status) {
    Held held(lock_);
    long long left = failing_to;
    failing = name, failing_from = after, failing_to = count, failing_with = status, fault = lost;
    return left;
}
void null_capacity(long long bytes) { capacity = bytes; }
static long long given(std::string &from, char *into, long long room) {
    Held held(lock_);
    long long n = (long long)from.size();
    if (n < room) std::memcpy(into, from.c_str(), n + 1), from.clear();
    return n;
}
// the kernels since the last call with their arguments, and what was refused, a line each
long long null_started(char *into, long long room) { return given(started, into, room); }
long long null_refused(char *into, long long room) { return given(refused, into, room); }

int null_cudaGetDeviceCount(int *n) { return *n = devices, lost; }
int null_cudaGetDevice(int *d) { return *d = current, lost; }
int null_cudaSetDevice(int d) { return d < 0 || d >= devices ? INVALID_DEVICE : (current = d, bound()); }
int null_cudaDriverGetVersion(int *v) {
    const char *said = std::getenv("NULL_CUDA_DRIVER");
    return *v = said ? std::atoi(said) : 12090, 0;
}
int null_cudaGetLastError() { return fault; }
int null_cudaPeekAtLastError() { return fault; }
const char *null_cudaGetErrorName(int e) {
    return e == OUT_OF_MEMORY     ? "cudaErrorMemoryAllocation"
           : e == NOT_INITIALIZED ? "cudaErrorInitializationError"
           : e == ILLEGAL_ADDRESS ? "cudaErrorIllegalAddress"
                                  : "cudaErrorOfTheNullDevice";
}
static const char *words(int e) {
    return e == OUT_OF_MEMORY     ? "out of memory"
           : e == NOT_INITIALIZED ? "initialization error"
           : e == ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                  : "said by the null device";
}
const char *null_cudaGetErrorString(int e) { return words(e); }
int null_cudaDeviceGetAttribute(int *v, int attribute, int) {
    switch (attribute) {
        case 1: *v = 1024; break;     // threads of a block
        case 10: *v = 32; break;      // threads of a warp
        case 16: *v = MULTIPROCESSORS; break;
        case 39: *v = THREADS; break;  // threads, and shared memory of a multiprocessor
        case 81: *v = OF_ALL; break;
        case 75: *v = 9; break;       // compute capability
        case 76: *v = 0; break;
        case 95: *v = 1; break;       // cooperative launches
        case 97: *v = SHARED; break;  // shared memory of a block that asks for it
        case 120: *v = 1; break;      // clusters
        default: *v = 0; return attribute > 130 ? INVALID : 0;
    }
    return 0;
}
int null_cudaGetDeviceProperties_v2(char *properties, int) {  // what stands at the same place in CUDA 12 and 13
    const size_t memory = 1ull << 33;
    const int processors = MULTIPROCESSORS, major = 9, warp = 32;
    std::memset(properties, 0, 900);
    std::strcpy(properties, "null device");
    std::memcpy(properties + 288, &memory, 8), std::memcpy(properties + 308, &warp, 4), std::memcpy(properties + 360, &major, 4);
    return std::memcpy(properties + 388, &processors, 4), 0;
}
int null_cudaGetDeviceProperties(char *properties, int d) { return null_cudaGetDeviceProperties_v2(properties, d); }
int null_cudaDeviceSynchronize() {
    if (int s = failed("cudaDeviceSynchronize")) return s;
    return bound() ? fault : whole("cudaDeviceSynchronize");
}
int null_cudaProfilerStart() { return bound(); }
int null_cudaProfilerStop() { return bound(); }
int null_cudaDeviceGetPCIBusId(char *text, int room, int) { return std::strncpy(text, "0000:01:00.0", room), 0; }
int null_cudaDeviceCanAccessPeer(int *v, int, int) { return *v = 1, 0; }
int null_cudaDeviceEnablePeerAccess(int, unsigned) { return bound(); }
int null_cudaMemGetInfo(size_t *free, size_t *total) {
    return *free = std::min(capacity - taken, (size_t)1 << 32), *total = 1ull << 33, bound();
}

int null_cudaMalloc(void **p, size_t n) {
    if (int s = bound()) return s;
    if (int s = unsafe("cudaMalloc")) return s;
    const char *room = std::getenv("NULL_CUDA_MEMORY");
    if (n > (room ? std::strtoull(room, nullptr, 10) : 1ull << 32)) return OUT_OF_MEMORY;
    if (int s = failed("cudaMalloc")) return s;
    Held held(lock_);
    if (taken + n > capacity) return OUT_OF_MEMORY;
    taken += n;
    *p = std::aligned_alloc(512, (n + 1023) / 512 * 512);
    std::memset(*p, 0xff, n);  // memory of a device is not clean
    blocks[(char *)*p] = {n, current};
    return 0;
}
int null_cudaFree(void *p) {
    if (int s = bound()) return s;
    if (int s = unsafe("cudaFree")) return s;
    Held held(lock_);
    if (!p) return 0;
    auto found = blocks.find((char *)p);
    if (found == blocks.end()) return INVALID;
    taken -= found->second.first, blocks.erase(found);
    return std::free(p), 0;
}
int null_cudaHostAlloc(void **p, size_t n, unsigned) {
    if (int s = bound()) return s;
    if (int s = unsafe("cudaHostAlloc")) return s;
    return *p = std::aligned_alloc(512, (n + 1023) / 512 * 512), 0;
}
int null_cudaFreeHost(void *p) { return std::free(p), fault; }
static int moved(void *to, const void *from, size_t n, handle stream, const char *name) {
    if (int s = bound()) return s;
    if (int s = used(stream, name)) return s;
    if (int s = failed(name)) return s;
    Stream *s = of(stream);
    if (!(s && s->mode >= 0)) std::memmove(to, from, n);  // a copy that is captured happens later: never, here
    return 0;
}
int null_cudaMemcpy(void *to, const void *from, size_t n, int) { return moved(to, from, n, nullptr, "cudaMemcpy"); }
int null_cudaMemcpyAsync(void *to, const void *from, size_t n, int, handle s) { return moved(to, from, n, s, "cudaMemcpyAsync"); }
int null_cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t n, handle s) {
    return moved(to, from, n, s, "cudaMemcpyPeerAsync");
}
static int filled(void *p, int v, size_t n, handle stream) {
    if (int s = bound()) return s;
    if (int s = used(stream, "cudaMemset")) return s;
    Stream *s = of(stream);
    if (!(s && s->mode >= 0)) std::memset(p, v, n);
    return 0;
}
int null_cudaMemset(void *p, int v, size_t n) { return filled(p, v, n, nullptr); }
int null_cudaMemsetAsync(void *p, int v, size_t n, handle s) { return filled(p, v, n, s); }
int null_cudaPointerGetAttributes(PointerAttributes *a, const void *p) {
    Held held(lock_);
    auto found = blocks.upper_bound((char *)p);
    *a = {0, -1, nullptr, (void *)p};
    if (found != blocks.begin() && (char *)p < (--found)->first + found->second.first)
        *a = {2, found->second.second, (void *)p, nullptr};
    return 0;
}
int null_cudaStreamCreateWithFlags(handle *s, unsigned flags) {
    if (int e = bound()) return e;
    Held held(lock_);
    Stream *made = new Stream{current, !(flags & 1)};
    return streams.insert(made), *s = made, 0;
}
int null_cudaStreamCreateWithPriority(handle *s, unsigned flags, int) { return null_cudaStreamCreateWithFlags(s, flags); }
int null_cudaStreamCreate(handle *s) { return null_cudaStreamCreateWithFlags(s, 0); }
int null_cudaStreamDestroy(handle h) {
    Held held(lock_);
    return streams.erase(of(h)), delete of(h), fault;
}
int null_cudaStreamSynchronize(handle s) { return bound() ? fault : waited(s, "cudaStreamSynchronize"); }
int null_cudaStreamQuery(handle s) { return bound() ? fault : waited(s, "cudaStreamQuery"); }
int null_cudaStreamWaitEvent(handle s, handle, unsigned) { return bound() ? fault : used(s, "cudaStreamWaitEvent"); }
int null_cudaStreamIsCapturing(handle h, int *v) { return *v = of(h) && of(h)->mode >= 0, fault; }
int null_cudaStreamBeginCapture(handle h, int mode) {
    if (int s = bound()) return s;
    return begin_capture(h, mode);
}
int null_cudaStreamEndCapture(handle h, Graph **graph) { return end_capture(h, graph); }
int null_cudaGraphInstantiate(Graph **made, Graph *graph, unsigned long long) { return *made = copy_of(graph), 0; }
int null_cudaGraphLaunch(Graph *graph, handle s) { return bound() ? fault : launch(graph, s); }
int null_cudaGraphUpload(Graph *, handle) { return fault; }
int null_cudaGraphDestroy(Graph *graph) { return destroy(graph), 0; }
int null_cudaGraphExecDestroy(Graph *graph) { return destroy(graph), 0; }
int null_cudaEventCreateWithFlags(double **e, unsigned) { return *e = new double(), bound(); }
int null_cudaEventCreate(double **e) { return *e = new double(), bound(); }
int null_cudaEventDestroy(double *e) { return delete e, fault; }
int null_cudaEventRecord(double *e, handle s) {
    if (int status = bound() ? fault : used(s, "cudaEventRecord")) return status;
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return *e = std::chrono::duration<double, std::milli>(now).count(), 0;
}
int null_cudaEventQuery(double *) { return bound() ? fault : unsafe("cudaEventQuery"); }
int null_cudaEventSynchronize(double *) { return bound() ? fault : unsafe("cudaEventSynchronize"); }
int null_cudaEventElapsedTime(float *ms, const double *from, const double *to) { return *ms = float(*to - *from), fault; }
int null_cudaEventElapsedTime_v2(float *ms, const double *from, const double *to) {
    return null_cudaEventElapsedTime(ms, from, to);
}

int cuInit(unsigned) { return NO_DEVICE; }  // asked by NVRTC alone, which then leaves the driver's cache alone
int cuGetErrorName(int e, const char **text) {
    *text = e == NOT_INITIALIZED ? "CUDA_ERROR_NOT_INITIALIZED" : "CUDA_ERROR_OF_THE_NULL_DEVICE";
    return *text = e == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : *text, 0;
}
int cuGetErrorString(int e, const char **text) { return *text = words(e), 0; }
int cuCtxGetCurrent(handle *c) { return *c = context < 0 ? nullptr : (handle)(size_t)(100 + context), 0; }
int cuModuleLoadData(handle *m, const void *image) {
    if (int s = in_context("cuModuleLoadData")) return s;
    if (int s = failed("cuModuleLoadData")) return s;
    if (int s = unsafe("cuModuleLoadData")) return s;
    if (const char *status = std::getenv("NULL_CUDA_LOADS")) return std::atoi(status);
    if (std::memcmp(image, "\x7f""ELF", 4)) {
        std::string text((const char *)image);
        if (text.find(".version ") == std::string::npos) return no(INVALID, "cuModuleLoadData of neither machine code nor PTX");
        return *m = new Module{context, kernels_in(text)}, 0;
    }
    return *m = new Module{context, kernels_of((const char *)image)}, 0;
}
int cuModuleUnload(handle m) { return delete (Module *)m, fault; }
int cuModuleGetFunction(handle *f, handle m, const char *name) {
    Module *module = (Module *)m;
    if (int s = in_context("cuModuleGetFunction")) return s;
    if (!module->kernels.count(name)) return NOT_FOUND;
    return *f = new Function{module->kernels[name], module->device}, 0;
}
int cuFuncSetAttribute(handle f, int attribute, int value) {
    if (int s = in_context("cuFuncSetAttribute")) return s;
    if (attribute == 14) return ((Function *)f)->large = value, 0;  // clusters of more than 8 blocks
    if (attribute != 8 || value + ((Function *)f)->kernel.fixed > SHARED) return no(INVALID, "cuFuncSetAttribute");
    return ((Function *)f)->given = std::max(GIVEN, value), 0;
}
int cuOccupancyMaxPotentialClusterSize(int *n, handle f, const unsigned *) {
    if (int s = in_context("cuOccupancyMaxPotentialClusterSize")) return s;
    return *n = ((Function *)f)->large ? 16 : 8, 0;
}
int cuFuncGetAttribute(int *v, int, handle f) { return *v = ((Function *)f)->kernel.threads, in_context("cuFuncGetAttribute"); }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, handle f, int threads, size_t shared) {
    if (int s = in_context("cuOccupancyMaxActiveBlocksPerMultiprocessor")) return s;
    return *n = (int)shared > ((Function *)f)->given ? 0 : resident(((Function *)f)->kernel, threads, shared), 0;
}
int cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   handle stream, void **parameters, void **) {
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    return start(f, grid, block, shared, stream, parameters, false);
}
int cuLaunchCooperativeKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                              unsigned shared, handle stream, void **parameters) {
    const unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz};
    return start(f, grid, block, shared, stream, parameters, true);
}

int cuGraphCreate(Graph **made, unsigned flags) { return flags ? INVALID : (*made = new Graph, fault); }
int cuGraphAddKernelNode_v2(Node **made, Graph *graph, Node **before, size_t count, const NodeParameters *p) {
    if (int s = in_context("cuGraphAddKernelNode")) return s;
    if (count != !graph->nodes.empty() || (count && *before != graph->nodes.back())) return no(INVALID, "a node is in no chain");
    if (p->extra || p->kernel || p->context) return no(INVALID, "a node's function is given twice");
    if (int s = allowed(p->function, p->grid, p->block, p->shared, false)) return s;
    *made = new Node{p->function, {}, {}, p->shared, false, copied(p->function->kernel, p->parameters)};
    std::memcpy((*made)->grid, p->grid, sizeof p->grid), std::memcpy((*made)->block, p->block, sizeof p->block);
    return graph->nodes.push_back(*made), 0;
}
int cuGraphKernelNodeSetAttribute(Node *n, int what, const int *value) {
    if (what != 2 || *value != 1) return no(INVALID, "an attribute of a node");
    n->together = true;
    return allowed(n->function, n->grid, n->block, n->shared, true);
}
int cuGraphInstantiateWithFlags(Graph **made, Graph *graph, unsigned long long flags) {
    if (int s = in_context("cuGraphInstantiate")) return s;
    if (int s = failed("cuGraphInstantiate")) return s;
    if (flags) return INVALID;
    *made = copy_of(graph);
    for (size_t k = 0; k < graph->nodes.size(); ++k) (*made)->nodes[k]->origin = graph->nodes[k];
    return 0;
}
int cuGraphAddChildGraphNode(Node **made, Graph *graph, Node **before, size_t count, Graph *child) {
    if (int s = in_context("cuGraphAddChildGraphNode")) return s;
    if (int s = failed("cuGraphAddChildGraphNode")) return s;
    if (count != !graph->nodes.empty() || (count && *before != graph->nodes.back())) return no(INVALID, "a node is in no chain");
    *made = new Node{};
    (*made)->child = copy_of(child);
    return graph->nodes.push_back(*made), 0;
}
int cuGraphExecChildGraphNodeSetParams(Graph *made, Node *node, Graph *child) {
    if (int s = in_context("cuGraphExecChildGraphNodeSetParams")) return s;
    if (int s = failed("cuGraphExecChildGraphNodeSetParams")) return s;
    Held held(lock_);
    for (Node *n : made->nodes)
        if (n->origin == node && n->child) {
            if (!alike(n->child, child)) return no(NOT_UPDATED, "a graph that is not like the one of before");
            return destroy(n->child), n->child = copy_of(child), 0;
        }
    return no(INVALID, "a node of another graph");
}
int cuStreamCreate(handle *s, unsigned flags) {
    if (int e = in_context("cuStreamCreate")) return e;
    return null_cudaStreamCreateWithFlags(s, flags);
}
int cuStreamDestroy_v2(handle s) { return null_cudaStreamDestroy(s); }
int cuStreamBeginCapture_v2(handle s, int mode) {
    if (int e = in_context("cuStreamBeginCapture")) return e;
    if (int e = failed("cuStreamBeginCapture")) return e;
    return begin_capture(s, mode);
}
int cuStreamEndCapture(handle s, Graph **graph) {
    int status = end_capture(s, graph);
    if (int e = failed("cuStreamEndCapture")) return status ? 0 : (destroy(*graph), 0), *graph = nullptr, e;
    return status;
}
int cuLaunchHostFunc(handle stream, HostFunction function, void *data) {
    Held held(lock_);
    if (int s = in_context("cuLaunchHostFunc")) return s;
    if (int s = used(stream, "cuLaunchHostFunc")) return s;
    Stream *s = of(stream);
    if (!s || s->mode < 0) return function(data), 0;
    Node *n = new Node{};
    n->host = function, n->data = data;
    return s->graph->nodes.push_back(n), 0;
}
int cuStreamGetCaptureInfo_v2(handle h, int *status, unsigned long long *number, Graph **graph, const Node ***, size_t *) {
    if (int s = in_context("cuStreamGetCaptureInfo")) return s;
    Stream *s = of(h);
    *status = s && s->mode >= 0 ? 1 + s->spoilt : 0;
    if (*status) *number = s->number, *graph = s->graph;
    return 0;
}
int cuThreadExchangeStreamCaptureMode(int *mode) { return std::swap(*mode, thread_mode), fault; }
int cuUserObjectCreate(UserObject **made, void *data, HostFunction destroy, unsigned references, unsigned flags) {
    if (int s = failed("cuUserObjectCreate")) return s;
    return flags == 1 ? (*made = new UserObject{destroy, data, references}, 0) : INVALID;
}
int cuUserObjectRelease(UserObject *object, unsigned count) { return release(object, count), 0; }
int cuGraphRetainUserObject(Graph *graph, UserObject *object, unsigned count, unsigned flags) {
    if (int s = failed("cuGraphRetainUserObject")) return s;
    if (flags != 1 || count != 1) return INVALID;
    return graph->held.push_back(object), 0;
}
int cuMemAlloc_v2(void **p, size_t n) {
    if (int s = in_context("cuMemAlloc")) return s;
    return null_cudaMalloc(p, n);
}
int cuMemFree_v2(void *p) { return null_cudaFree(p); }
int cuGraphExecKernelNodeSetParams_v2(Graph *made, Node *node, const NodeParameters *p) {
    if (int s = in_context("cuGraphExecKernelNodeSetParams")) return s;
    if (int s = failed("cuGraphExecKernelNodeSetParams")) return s;
    Held held(lock_);
    for (Node *n : made->nodes)
        if (n->origin == node && n->function) {
            if (p->function->device != n->function->device) return no(INVALID, "a node's function moves to another device");
            if (int s = allowed(p->function, p->grid, p->block, p->shared, n->together)) return s;
            return n->arguments = copied(p->function->kernel, p->parameters), 0;
        }
    return no(INVALID, "a node of another graph");
}
int cuGraphLaunch(Graph *graph, handle stream) {
    if (int s = in_context("cuGraphLaunch")) return s;
    return launch(graph, stream);
}
int cuGraphExecDestroy(Graph *graph) { return destroy(graph), fault; }
int cuGraphDestroy(Graph *graph) { return destroy(graph), fault; }
}
