// SPDX-License-Identifier: Apache-2.0
// cuDNN's functions for convolutions on host memory, as documented, one plain loop each.
//
// Sums are in double. What cuDNN demands of its callers is checked and answered with its statuses: strides
// without overlaps, group counts, extents, alignment, workspaces, a stream, one thread at a time per handle. float32 with
// any mathematics but FMA is rounded to TF32, as a GPU does. Tests read counters and plant failures through the
// functions at the end.
//
// FAKE_MAJOR: 9 (default) or another version; FAKE_CUDA: that it is built for (12); FAKE_LACKS: without cudnnConvolutionForward.

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

enum { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT16 = 9 };
#include "elements.h"
#include "on_stream.h"

#ifndef FAKE_MAJOR
#define FAKE_MAJOR 9
#endif
#ifndef FAKE_CUDA
#define FAKE_CUDA 12
#endif
#define API extern "C" __attribute__((visibility("default")))

namespace {

enum { DEFAULT_MATH = 0, TENSOR_OP = 1, FMA = 3 };
enum { RELU = 1, IDENTITY = 5 };
#if FAKE_MAJOR >= 9
enum { OK = 0, NOT_INITIALIZED = 1001, BUSY = 1006, BAD = 2000, MISALIGNED = 2003, SMALL = 2006, STREAM = 2007, SHAPE = 2008, UNSUPPORTED = 3000, LAYOUT = 3004, FAILED = 5000 };
#else
enum { OK = 0, NOT_INITIALIZED = 1, BAD = 3, FAILED = 8, UNSUPPORTED = 9, BUSY = 12, MISALIGNED = BAD, SMALL = BAD, STREAM = BAD, SHAPE = BAD, LAYOUT = UNSUPPORTED };
#endif

struct Tensor { int type = -1; std::vector<int> dims, strides; };
struct Filter { int type = -1, format = -1; std::vector<int> dims; };
struct Convolution { std::vector<int> pad, stride, dilate; int mode = -1, compute = -1, math = DEFAULT_MATH, groups = 1; };
struct Activation { int mode = -1, nan = -1; double coefficient = 0; };
struct Handle { void *stream = nullptr; bool has_stream = false; std::atomic<bool> used{false}; };
struct Performance { int algorithm, status; float time; size_t memory; int determinism, math, reserved[3]; };

std::mutex guard;
std::map<std::string, long> counts, planted;
std::string last_error;
void *last_stream = nullptr;
long last_algorithm = -1;
std::atomic<long> alive{0};
std::set<const void *> living;  // descriptors

int say(int status, const char *why) {
    std::lock_guard<std::mutex> lock(guard);
    last_error = why;
    return status;
}

// Counts a call; a status that a test planted under the function's name.
int enter(const char *name) {
    std::lock_guard<std::mutex> lock(guard);
    ++counts[name];
    const auto found = planted.find(name);
    if (found == planted.end() || found->second == 0) return OK;
    last_error = "planted";
    return int(found->second);
}

long knob(const std::string &name) {
    std::lock_guard<std::mutex> lock(guard);
    const auto found = planted.find(name);
    return found == planted.end() ? 0 : found->second;
}

void born(const void *made) { std::lock_guard<std::mutex> lock(guard); living.insert(made); ++alive; }
void died(const void *made) { std::lock_guard<std::mutex> lock(guard); living.erase(made); --alive; }

// Whether descriptors are there still: a destroyed one is read by nobody.
bool there(std::initializer_list<const void *> descriptors) {
    std::lock_guard<std::mutex> lock(guard);
    for (const void *d : descriptors) if (!living.count(d)) return false;
    return true;
}

long product(const std::vector<int> &dims, size_t from = 0) {
    long n = 1;
    for (size_t k = from; k < dims.size(); ++k) n *= dims[k];
    return n;
}

// Where the k-th element lies.
long place(const Tensor &t, long k) {
    long found = 0;
    for (size_t a = t.dims.size(); a-- > 0; k /= t.dims[a]) found += k % t.dims[a] * t.strides[a];
    return found;
}

// Whether the four descriptors belong together.
int consistent(const Tensor &x, const Filter &w, const Convolution &c, const Tensor &y) {
    const size_t rank = c.pad.size();
    if (!known(x.type) || x.type != w.type || x.type != y.type) return say(BAD, "element types differ or are unknown");
    if (w.format != 0) return say(UNSUPPORTED, "the filter is not NCHW");
    if (c.compute != (x.type == DOUBLE ? DOUBLE : FLOAT)) return say(UNSUPPORTED, "accumulation in this type");
    if (c.mode != 1) return say(BAD, "the kernel would be reversed");
    if (rank != 2 && rank != 3) return say(BAD, "neither two nor three spatial axes");
    if (x.dims.size() != rank + 2 || w.dims.size() != rank + 2 || y.dims.size() != rank + 2) return say(BAD, "ranks differ");
    for (const Tensor *t : {&x, &y}) {
        long least = 1;
        for (size_t k = t->dims.size(); k-- > 0; least = long(t->strides[k]) * t->dims[k]) {
            if (t->strides[k] < least || (k + 1 == t->dims.size() && t->strides[k] != 1)) return say(LAYOUT, "strides that overlap");
            if (t->strides[k] > least && knob("no strides")) return say(UNSUPPORTED, "strides that are not packed");
        }
    }
    if (c.groups < 1 || x.dims[1] != w.dims[1] * c.groups || w.dims[0] % c.groups) return say(BAD, "channels and group count");
    if (y.dims[0] != x.dims[0] || y.dims[1] != w.dims[0]) return say(SHAPE, "samples or channels of the result");
    for (size_t k = 0; k < rank; ++k) {
        if (c.pad[k] < 0 || c.stride[k] < 1 || c.dilate[k] < 1) return say(BAD, "pad, stride or dilation");
        const int free = x.dims[k + 2] + 2 * c.pad[k] - ((w.dims[k + 2] - 1) * c.dilate[k] + 1);
        if (free < 0 || y.dims[k + 2] != free / c.stride[k] + 1) return say(SHAPE, "extents of the result");
    }
    if (product(x.dims) < 1 || product(w.dims) < 1) return say(BAD, "nothing to compute");
    return OK;
}

// visit(offset in x, in w, in y) for every product of the convolution.
template <class Visit>
void products(const Tensor &x, const Filter &w, const Convolution &c, const Tensor &y, Visit visit) {
    const size_t rank = c.pad.size();
    const long pixels = product(x.dims, 2), taps = product(w.dims, 2), places = product(y.dims, 2);
    const long inner = w.dims[1], outer = w.dims[0] / c.groups;
    for (long place = 0; place < places; ++place)
        for (long tap = 0; tap < taps; ++tap) {
            long at = 0, p = place, t = tap, step = 1;
            bool inside = true;
            for (size_t k = rank; k-- > 0;) {
                const long i = p % y.dims[k + 2] * c.stride[k] - c.pad[k] + t % w.dims[k + 2] * c.dilate[k];
                inside = inside && i >= 0 && i < x.dims[k + 2];
                at += i * step;
                step *= x.dims[k + 2];
                p /= y.dims[k + 2];
                t /= w.dims[k + 2];
            }
            if (!inside) continue;
            for (long n = 0; n < x.dims[0]; ++n)
                for (long o = 0; o < w.dims[0]; ++o)
                    for (long i = 0; i < inner; ++i)
                        visit(
                            (n * x.dims[1] + o / outer * inner + i) * pixels + at, (o * inner + i) * taps + tap,
                            (n * y.dims[1] + o) * places + place);
        }
}

long needed(int algorithm, const Tensor &x) { return algorithm == 0 ? 0 : 64L * algorithm + x.dims[0]; }

struct Choice { int algorithm, status, determinism, math; };

// What an estimate might say: an algorithm that fails, a transform, one that adds atomically, then plain sums.
int estimate(const char *name, std::vector<Choice> choices, const Tensor &x, const Convolution &c, int wanted, int *found, Performance *results) {
    if (wanted < 1 || !found || !results) return say(BAD, "room for results");
    *found = 0;
    const long only = knob(std::string(name) + " only");
    for (const Choice &k : choices) {
        if (*found == wanted) break;
        if (only && k.algorithm != only - 1) continue;
        const int math = k.math >= 0 ? k.math : x.type == HALF ? DEFAULT_MATH : c.math;
        results[(*found)++] = {k.algorithm, k.status, 1.0f + *found, size_t(needed(k.algorithm, x)), k.determinism, math, {0, 0, 0}};
    }
    return OK;
}

int workspace(const char *name, int algorithm, const Tensor &x, size_t *bytes) {
    const long refused = knob(std::string(name) + " refuses");
    if (refused && algorithm == refused - 1) return say(UNSUPPORTED, "this algorithm");
    *bytes = size_t(needed(algorithm, x));
    return OK;
}

struct Use {  // of a handle by one thread
    Handle *handle;
    bool mine;
    explicit Use(Handle *h) : handle(h), mine(!h->used.exchange(true)) {}
    ~Use() { if (mine) handle->used = false; }
};

int start(Handle *h, const char *name, int algorithm, const Tensor &x, void *work, size_t bytes, std::initializer_list<const void *> arrays) {
    if (!h->has_stream) return say(STREAM, "no stream was set");
    const long refused = knob(std::string(name) + " refuses to run");
    if (refused && algorithm == refused - 1) return say(UNSUPPORTED, "this algorithm");
    const long wanted = needed(algorithm, x);
    if (long(bytes) < wanted || (wanted && !work)) return say(SMALL, "the workspace is too small");
    for (const void *a : arrays)
        if (!a || reinterpret_cast<uintptr_t>(a) % 16) return say(MISALIGNED, "an array is missing or not aligned");
    {
        std::lock_guard<std::mutex> lock(guard);
        last_stream = h->stream;
        last_algorithm = algorithm;
    }
    if (knob("allocates") && !allocates()) return say(FAILED, "no memory");
    if (knob("slow")) std::this_thread::sleep_for(std::chrono::milliseconds(knob("slow")));
    return OK;
}

double scale_of(const void *value, int type) {
    return type == DOUBLE ? *static_cast<const double *>(value) : double(*static_cast<const float *>(value));
}

long place(const Filter &, long k) { return k; }

template <class Shape>
void finish(const std::vector<double> &sums, double a, double b, int type, const Shape &shape, void *out) {
    for (size_t k = 0; k < sums.size(); ++k) {
        const long at = place(shape, long(k));
        store(out, at, type, a * sums[k] + (b ? b * load(out, at, type, false) : 0));
    }
}

template <class T> T &at(void *p) { return *static_cast<T *>(p); }
#define ENTER(name) if (const int status = enter(name)) return status
#define TRY(call) if (const int status = call) return status

}  // namespace

API size_t cudnnGetVersion() { return FAKE_MAJOR >= 9 ? FAKE_MAJOR * 10000 + 1203 : FAKE_MAJOR * 1000 + 907; }
API size_t cudnnGetCudartVersion() { const long v = knob("cuda"); return size_t(v ? v : FAKE_CUDA) * 1000 + 60; }

API const char *cudnnGetErrorString(int status) {
    return status == UNSUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : status == FAILED ? "CUDNN_STATUS_EXECUTION_FAILED" : status == NOT_INITIALIZED ? "CUDNN_STATUS_NOT_INITIALIZED" : "CUDNN_STATUS_BAD_PARAM";
}

#if FAKE_MAJOR >= 9
API void cudnnGetLastErrorString(char *message, size_t size) {
    std::lock_guard<std::mutex> lock(guard);
    std::strncpy(message, last_error.c_str(), size);
    message[size - 1] = 0;
    last_error.clear();
}
#endif

API int cudnnCreate(void **handle) { ENTER("cudnnCreate"); *handle = new Handle; return OK; }
API int cudnnDestroy(void *handle) { ENTER("cudnnDestroy"); delete static_cast<Handle *>(handle); return OK; }

API int cudnnSetStream(void *handle, void *stream) {
    ENTER("cudnnSetStream");
    at<Handle>(handle).stream = stream;
    at<Handle>(handle).has_stream = true;
    return OK;
}

#define DESCRIPTOR(Kind) \
    API int cudnnCreate##Kind##Descriptor(void **made) { ENTER("cudnnCreate" #Kind "Descriptor"); *made = new Kind; born(*made); return OK; } \
    API int cudnnDestroy##Kind##Descriptor(void *made) { ENTER("cudnnDestroy" #Kind "Descriptor"); died(made); delete static_cast<Kind *>(made); return OK; }
DESCRIPTOR(Tensor)
DESCRIPTOR(Filter)
DESCRIPTOR(Convolution)
DESCRIPTOR(Activation)

API int cudnnSetTensorNdDescriptor(void *made, int type, int rank, const int *dims, const int *strides) {
    ENTER("cudnnSetTensorNdDescriptor");
    if (rank < 3 || rank > 8) return say(BAD, "rank");
    at<Tensor>(made) = {type, {dims, dims + rank}, {strides, strides + rank}};
    return OK;
}

API int cudnnSetFilterNdDescriptor(void *made, int type, int format, int rank, const int *dims) {
    ENTER("cudnnSetFilterNdDescriptor");
    if (rank < 3 || rank > 8) return say(BAD, "rank");
    at<Filter>(made) = {type, format, {dims, dims + rank}};
    return OK;
}

API int cudnnSetConvolutionNdDescriptor(void *made, int rank, const int *pad, const int *stride, const int *dilate, int mode, int compute) {
    ENTER("cudnnSetConvolutionNdDescriptor");
    Convolution &c = at<Convolution>(made);
    c.pad.assign(pad, pad + rank);
    c.stride.assign(stride, stride + rank);
    c.dilate.assign(dilate, dilate + rank);
    c.mode = mode;
    c.compute = compute;
    return OK;
}

API int cudnnSetConvolutionGroupCount(void *made, int groups) { ENTER("cudnnSetConvolutionGroupCount"); at<Convolution>(made).groups = groups; return OK; }
API int cudnnSetConvolutionMathType(void *made, int math) { ENTER("cudnnSetConvolutionMathType"); at<Convolution>(made).math = math; return OK; }

API int cudnnSetActivationDescriptor(void *made, int mode, int nan, double coefficient) {
    ENTER("cudnnSetActivationDescriptor");
    if (mode < 0 || mode > 6 || nan < 0 || nan > 1) return say(BAD, "activation");
    at<Activation>(made) = {mode, nan, coefficient};
    return OK;
}

#define QUERIES(Kind, FIRST, SECOND, THIRD, X, W, Y, ...) \
    API int cudnnGetConvolution##Kind##Algorithm_v7(void *handle, void *FIRST, void *SECOND, void *c, void *THIRD, int wanted, int *found, Performance *results) { \
        ENTER("cudnnGetConvolution" #Kind "Algorithm_v7"); \
        if (!handle) return say(BAD, "no handle"); \
        TRY(consistent(at<Tensor>(X), at<Filter>(W), at<Convolution>(c), at<Tensor>(Y))); \
        return estimate(#Kind, {__VA_ARGS__}, at<Tensor>(X), at<Convolution>(c), wanted, found, results); \
    } \
    API int cudnnGetConvolution##Kind##WorkspaceSize(void *handle, void *FIRST, void *SECOND, void *c, void *THIRD, int algorithm, size_t *bytes) { \
        ENTER("cudnnGetConvolution" #Kind "WorkspaceSize"); \
        if (!handle) return say(BAD, "no handle"); \
        TRY(consistent(at<Tensor>(X), at<Filter>(W), at<Convolution>(c), at<Tensor>(Y))); \
        return workspace(#Kind, algorithm, at<Tensor>(X), bytes); \
    }
// algorithm, status, deterministic, mathematics (-1: as described)
QUERIES(Forward, x, w, y, x, w, y, {2, UNSUPPORTED, 1, -1}, {6, OK, 1, -1}, {1, OK, 1, TENSOR_OP}, {1, OK, 1, -1}, {4, OK, 1, -1}, {0, OK, 1, -1})
QUERIES(BackwardData, w, y, x, x, w, y, {0, OK, 0, -1}, {5, OK, 1, -1}, {1, OK, 1, -1})
QUERIES(BackwardFilter, x, y, w, x, w, y, {3, OK, 0, -1}, {0, OK, 0, -1}, {1, OK, 1, -1})

#define RUN(Kind, FIRST, SECOND, LAST, X, W, Y, SIZE, SUM) \
    API int cudnnConvolution##Kind(void *handle, const void *alpha, void *FIRST##d, const void *FIRST, void *SECOND##d, const void *SECOND, void *cd, int algorithm, void *work, size_t bytes, const void *beta, void *LAST##d, void *LAST) { \
        ENTER("cudnnConvolution" #Kind); \
        Use use(static_cast<Handle *>(handle)); \
        if (!use.mine) return say(BUSY, "two threads use the handle"); \
        const Tensor &xt = at<Tensor>(X); \
        const Filter &wt = at<Filter>(W); \
        const Tensor &yt = at<Tensor>(Y); \
        const Convolution &c = at<Convolution>(cd); \
        TRY(consistent(xt, wt, c, yt)); \
        TRY(start(use.handle, #Kind, algorithm, xt, work, bytes, {FIRST, SECOND, LAST})); \
        const int type = xt.type; \
        const bool reduced = type == FLOAT && c.math != FMA; \
        const double one = scale_of(alpha, type), old = scale_of(beta, type); \
        const size_t spoilt = size_t(needed(algorithm, xt)); \
        const bool done = on_stream(use.handle->stream, [=, xt = xt, wt = wt, yt = yt, c = c] { \
            if (spoilt) std::memset(work, 0xff, spoilt); \
            std::vector<double> sums(size_t(product(SIZE.dims))); \
            products(xt, wt, c, yt, [&](long i, long j, long k) { SUM; }); \
            finish(sums, one, old, type, SIZE, LAST); \
        }); \
        return done ? OK : say(FAILED, "the driver refuses it"); \
    }
#define LOAD(array, where) load(array, where, type, reduced)
#ifndef FAKE_LACKS
RUN(Forward, x, w, y, xd, wd, yd, yt, sums[k] += LOAD(x, place(xt, i)) * LOAD(w, j))
#endif
RUN(BackwardData, w, y, x, xd, wd, yd, xt, sums[i] += LOAD(w, j) * LOAD(y, place(yt, k)))
RUN(BackwardFilter, x, y, w, xd, wd, yd, wt, sums[j] += LOAD(x, place(xt, i)) * LOAD(y, place(yt, k)))

// act(alpha1 * conv(x) + alpha2 * z + bias), under the conditions of the documentation.
API int cudnnConvolutionBiasActivationForward(void *handle, const void *alpha1, void *xd, const void *x, void *wd, const void *w, void *cd, int algorithm, void *work, size_t bytes, const void *alpha2, void *zd, const void *z, void *bd, const void *bias, void *ad, void *yd, void *y) {
    ENTER("cudnnConvolutionBiasActivationForward");
    Use use(static_cast<Handle *>(handle));
    if (!use.mine) return say(BUSY, "two threads use the handle");
    if (!there({xd, wd, cd, zd, bd, ad, yd})) return say(BAD, "a descriptor was destroyed");
    const Tensor &xt = at<Tensor>(xd), &zt = at<Tensor>(zd), &bt = at<Tensor>(bd), &yt = at<Tensor>(yd);
    const Filter &wt = at<Filter>(wd);
    const Convolution &c = at<Convolution>(cd);
    const Activation &a = at<Activation>(ad);
    TRY(consistent(xt, wt, c, yt));
    if (a.mode != RELU && a.mode != IDENTITY) return say(UNSUPPORTED, "this activation");
    if (a.nan != 0) return say(UNSUPPORTED, "an activation that keeps NaN");
    if (a.mode == IDENTITY && algorithm != 1) return say(UNSUPPORTED, "no activation with this algorithm");
    if (zt.type != yt.type || zt.dims != yt.dims || zt.strides != yt.strides) return say(UNSUPPORTED, "what is added is not like the result");
    std::vector<int> channels(yt.dims.size(), 1);
    channels[1] = yt.dims[1];
    if (bt.type != yt.type || bt.dims != channels) return say(BAD, "the bias");
    if (bt.strides[1] != 1) return say(UNSUPPORTED, "the second stride of the bias");
    const size_t size = xt.type == DOUBLE ? 8 : xt.type == FLOAT ? 4 : 2;
    const auto meet = [size](const void *p, long n, const void *q, long m) {
        const char *a = static_cast<const char *>(p), *b = static_cast<const char *>(q);
        return a < b + size * m && b < a + size * n;
    };
    const long results = product(yt.dims), reach = place(yt, results - 1) + 1;
    for (const void *other : {static_cast<const void *>(y), z})
        if (meet(x, place(xt, product(xt.dims) - 1) + 1, other, reach)) return say(BAD, "the operand overlaps");
    if (meet(w, product(wt.dims), y, reach) || meet(bias, yt.dims[1], y, reach)) return say(BAD, "the weight or the bias overlaps");
    if (z != y && meet(z, reach, y, reach)) return say(BAD, "what is added overlaps the result in part");
    TRY(start(use.handle, "Fused", algorithm, xt, work, bytes, {x, w, z, bias, y}));
    const int type = xt.type;
    const bool reduced = type == FLOAT && c.math != FMA;
    const double one = scale_of(alpha1, type), two = scale_of(alpha2, type);
    const size_t spoilt = size_t(needed(algorithm, xt));
    const bool done = on_stream(use.handle->stream, [=, xt = xt, wt = wt, yt = yt, zt = zt, c = c, mode = a.mode] {
        if (spoilt) std::memset(work, 0xff, spoilt);
        std::vector<double> sums(static_cast<size_t>(results));
        products(xt, wt, c, yt, [&](long i, long j, long k) { sums[k] += load(x, place(xt, i), type, reduced) * load(w, j, type, reduced); });
        const long places = product(yt.dims, 2);
        for (long k = 0; k < results; ++k) {
            double v = one * sums[k] + (two ? two * load(z, place(zt, k), type, false) : 0) + load(bias, k / places % yt.dims[1], type, false);
            if (mode == RELU) v = v > 0 ? v : 0;  // of NaN, too
            store(y, place(yt, k), type, v);
        }
    });
    return done ? OK : say(FAILED, "the driver refuses it");
}

// -- for tests

API long fake_count(const char *name) { std::lock_guard<std::mutex> lock(guard); return counts[name]; }
API void fake_plant(const char *name, long value) { std::lock_guard<std::mutex> lock(guard); planted[name] = value; }
API void fake_reset() { std::lock_guard<std::mutex> lock(guard); counts.clear(); planted.clear(); last_stream = nullptr; last_algorithm = -1; }
API size_t fake_stream() { std::lock_guard<std::mutex> lock(guard); return reinterpret_cast<size_t>(last_stream); }
API long fake_algorithm() { std::lock_guard<std::mutex> lock(guard); return last_algorithm; }
API long fake_alive() { return alive; }
