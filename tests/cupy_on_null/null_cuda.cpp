// SPDX-License-Identifier: Apache-2.0
// CUDA's run-time and driver with memory, streams and events of the host, whose kernels compute nothing: for the real CuPy,
// which then checks all that it is asked. null_cudaX takes the place of cudaX, see null_cupy.py; the driver's functions have
// their own names. Statuses are those of CUDA.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

typedef void *handle;  // a stream, an event, a module, …

static const int INVALID = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_FOUND = 500;
static int devices = 1;
static thread_local int current;
static std::mutex lock_;
static std::map<char *, std::pair<size_t, int>> blocks;  // address -> bytes, device
static std::string started;

struct PointerAttributes {
    int type, device;
    void *on_device, *on_host;
};

extern "C" {
void null_devices(int n) { devices = n; }
long long null_started(char *into, long long room) {  // names of the kernels since the last call, a line each
    std::lock_guard<std::mutex> held(lock_);
    long long n = (long long)started.size();
    if (n < room) std::memcpy(into, started.c_str(), n + 1);
    started.clear();
    return n;
}

int null_cudaGetDeviceCount(int *n) { return *n = devices, 0; }
int null_cudaGetDevice(int *d) { return *d = current, 0; }
int null_cudaSetDevice(int d) { return d < 0 || d >= devices ? INVALID_DEVICE : (current = d, 0); }
int null_cudaDriverGetVersion(int *v) { return *v = 12090, 0; }
int null_cudaGetLastError() { return 0; }
int null_cudaPeekAtLastError() { return 0; }
const char *null_cudaGetErrorName(int) { return "cudaErrorOfTheNullDevice"; }
const char *null_cudaGetErrorString(int) { return "said by the null device"; }
int null_cudaDeviceGetAttribute(int *v, int attribute, int) {
    switch (attribute) {
        case 1: *v = 1024; break;     // threads of a block
        case 10: *v = 32; break;      // threads of a warp
        case 16: *v = 132; break;     // multiprocessors
        case 75: *v = 9; break;       // compute capability
        case 76: *v = 0; break;
        case 95: *v = 1; break;       // cooperative launches
        case 97: *v = 232448; break;  // shared memory of a block that asks for it
        default: *v = 0; return attribute > 130 ? INVALID : 0;
    }
    return 0;
}
int null_cudaDeviceSynchronize() { return 0; }
int null_cudaDeviceGetPCIBusId(char *text, int room, int) { return std::strncpy(text, "0000:01:00.0", room), 0; }
int null_cudaDeviceCanAccessPeer(int *v, int, int) { return *v = 1, 0; }
int null_cudaDeviceEnablePeerAccess(int, unsigned) { return 0; }
int null_cudaMemGetInfo(size_t *free, size_t *total) { return *free = 1ull << 32, *total = 1ull << 33, 0; }

int null_cudaMalloc(void **p, size_t n) {
    if (n > 1ull << 32) return OUT_OF_MEMORY;
    *p = std::aligned_alloc(512, (n + 1023) / 512 * 512);
    std::memset(*p, 0xff, n);  // memory of a device is not clean
    std::lock_guard<std::mutex> held(lock_);
    blocks[(char *)*p] = {n, current};
    return 0;
}
int null_cudaFree(void *p) {
    std::lock_guard<std::mutex> held(lock_);
    if (p && !blocks.erase((char *)p)) return INVALID;
    return std::free(p), 0;
}
int null_cudaHostAlloc(void **p, size_t n, unsigned) { return *p = std::aligned_alloc(512, (n + 1023) / 512 * 512), 0; }
int null_cudaFreeHost(void *p) { return std::free(p), 0; }
int null_cudaMemcpy(void *to, const void *from, size_t n, int) { return std::memmove(to, from, n), 0; }
int null_cudaMemcpyAsync(void *to, const void *from, size_t n, int, handle) { return std::memmove(to, from, n), 0; }
int null_cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t n, handle) { return std::memmove(to, from, n), 0; }
int null_cudaMemset(void *p, int v, size_t n) { return std::memset(p, v, n), 0; }
int null_cudaMemsetAsync(void *p, int v, size_t n, handle) { return std::memset(p, v, n), 0; }
int null_cudaPointerGetAttributes(PointerAttributes *a, const void *p) {
    std::lock_guard<std::mutex> held(lock_);
    auto found = blocks.upper_bound((char *)p);
    *a = {0, -1, nullptr, (void *)p};
    if (found != blocks.begin() && (char *)p < (--found)->first + found->second.first)
        *a = {2, found->second.second, (void *)p, nullptr};
    return 0;
}
int null_cudaStreamCreateWithFlags(handle *s, unsigned) { return *s = std::malloc(8), 0; }
int null_cudaStreamCreateWithPriority(handle *s, unsigned, int) { return *s = std::malloc(8), 0; }
int null_cudaStreamCreate(handle *s) { return *s = std::malloc(8), 0; }
int null_cudaStreamDestroy(handle s) { return std::free(s), 0; }
int null_cudaStreamSynchronize(handle) { return 0; }
int null_cudaStreamQuery(handle) { return 0; }
int null_cudaStreamWaitEvent(handle, handle, unsigned) { return 0; }
int null_cudaStreamIsCapturing(handle, int *v) { return *v = 0, 0; }
int null_cudaEventCreateWithFlags(handle *e, unsigned) { return *e = std::malloc(8), 0; }
int null_cudaEventCreate(handle *e) { return *e = std::malloc(8), 0; }
int null_cudaEventDestroy(handle e) { return std::free(e), 0; }
int null_cudaEventRecord(handle, handle) { return 0; }
int null_cudaEventQuery(handle) { return 0; }
int null_cudaEventSynchronize(handle) { return 0; }
int null_cudaEventElapsedTime(float *ms, handle, handle) { return *ms = 1, 0; }

int cuInit(unsigned) { return NO_DEVICE; }  // asked by NVRTC alone, which then leaves the driver's cache alone
int cuGetErrorName(int, const char **text) { return *text = "CUDA_ERROR_OF_THE_NULL_DEVICE", 0; }
int cuGetErrorString(int, const char **text) { return *text = "said by the null device", 0; }
int cuCtxGetCurrent(handle *c) { return *c = (handle)(size_t)(100 + current), 0; }
int cuModuleLoadData(handle *m, const void *image) {
    const char *bytes = (const char *)image;
    size_t sections, entry = 0, count = 0;
    if (std::memcmp(bytes, "\x7f""ELF", 4)) return INVALID;
    std::memcpy(&sections, bytes + 40, 8), std::memcpy(&entry, bytes + 58, 2), std::memcpy(&count, bytes + 60, 2);
    *m = new std::string(bytes, sections + entry * count);
    return 0;
}
int cuModuleUnload(handle m) { return delete (std::string *)m, 0; }
int cuModuleGetFunction(handle *f, handle m, const char *name) {
    if (((std::string *)m)->find(name) == std::string::npos) return NOT_FOUND;
    return *f = new std::string(name), 0;
}
int cuFuncSetAttribute(handle, int attribute, int value) { return attribute != 8 || value > 232448 ? INVALID : 0; }
int cuFuncGetAttribute(int *v, int, handle) { return *v = 1024, 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, handle, int threads, size_t) { return *n = 2048 / threads, 0; }
int cuLaunchKernel(handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   handle, void **, void **) {
    if (!(gx && gy && gz && bx && by && bz) || gy > 65535 || gz > 65535 || bx * by * bz > 1024 || shared > 232448)
        return INVALID;
    std::lock_guard<std::mutex> held(lock_);
    started += *(std::string *)f + "\n";
    return 0;
}
int cuLaunchCooperativeKernel(handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                              unsigned shared, handle stream, void **arguments) {
    return cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, arguments, nullptr);
}
}
