// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's functions for products of matrices on host memory, as documented, one plain loop each.
//
// Sums are in double. What cuBLASLt demands of its callers is checked and answered with its statuses: attributes and
// their sizes, extents, leading dimensions, alignments, workspaces, an algorithm that was made for these descriptions.
// What is allowed, but not wanted, shows in the results: TF32 and sums of parts in the type of the result round, relu
// drops NaN. Tests read counters and plant failures through the functions at the end.
//
// FAKE_MAJOR: 12 (default) or another version; FAKE_LACKS: without cublasLtMatmul.

#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

enum { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT16 = 14 };
#include "../cudnn_on_cpu/elements.h"
#include "../cudnn_on_cpu/on_stream.h"

#ifndef FAKE_MAJOR
#define FAKE_MAJOR 12
#endif
#define API extern "C" __attribute__((visibility("default")))

namespace {

enum { OK = 0, NOT_INITIALIZED = 1, INVALID = 7, FAILED = 13, UNSUPPORTED = 15 };
enum { OP_N = 0, OP_T = 1 };
enum { EPILOGUE_DEFAULT = 1, RELU = 2, BIAS = 4 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, FAST_TF32 = 77 };
constexpr long LAYOUT = 0x4c41594f, PRODUCT = 0x50524f44, PREFERENCE = 0x50524546, HANDLE = 0x48414e44, DEAD = 0xdead;

struct Layout { long kind = LAYOUT; int type; uint64_t rows, columns; int64_t leading; int batch = 1; int64_t step = 0; };
struct Product { long kind = PRODUCT; int compute, scale, ta = OP_N, tb = OP_N; uint32_t epilogue = EPILOGUE_DEFAULT; const void *bias = nullptr; };
struct Preference { long kind = PREFERENCE; uint64_t workspace = 0; uint32_t reductions = 7, alignment[4] = {256, 256, 256, 256}; };
struct Handle { long kind = HANDLE; };
struct Algorithm { uint64_t magic, id, workspace, alignment, fits, spare[3]; };
struct Heuristic { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };
static_assert(sizeof(Algorithm) == 64 && sizeof(Heuristic) == 96, "as in cublasLt.h");
enum { MAGIC = 0x414c474f };
enum { PLAIN = 1, SPLIT = 2, SPLIT_IN_OUTPUT_TYPE = 4 };  // algorithms

std::mutex guard;
std::map<std::string, long> counts, planted;
void *last_stream = nullptr;
long last_algorithm = -1;
std::atomic<long> alive{0};

// Counts a call; a status that a test planted under the function's name.
int enter(const char *name) {
    std::lock_guard<std::mutex> lock(guard);
    ++counts[name];
    const auto found = planted.find(name);
    return found == planted.end() ? OK : int(found->second);
}

long knob(const char *name) {
    std::lock_guard<std::mutex> lock(guard);
    const auto found = planted.find(name);
    return found == planted.end() ? 0 : found->second;
}

template <class T>
T *as(void *p, long kind) {
    T *found = static_cast<T *>(p);
    return found && found->kind == kind ? found : nullptr;
}

template <class T>
int take(T &target, const void *value, size_t size) {
    if (!value || size != sizeof(T)) return INVALID;
    std::memcpy(&target, value, size);
    return OK;
}

template <class T>
int destroy(const char *name, void *p, long kind) {
    if (const int planted = enter(name)) return planted;
    T *found = as<T>(p, kind);
    if (!found) return INVALID;
    found->kind = DEAD;
    delete found;
    --alive;
    return OK;
}

// Whether descriptions belong together; what an algorithm for them fits.
int consistent(const Product &p, const Layout &a, const Layout &b, const Layout &c, const Layout &d, uint64_t *fits) {
    if (!known(a.type) || a.type != b.type || a.type != c.type || a.type != d.type) return UNSUPPORTED;
    const bool is_double = a.type == DOUBLE;
    if (p.scale != (is_double ? DOUBLE : FLOAT)) return UNSUPPORTED;
    if (is_double ? p.compute != COMPUTE_64F : p.compute != COMPUTE_32F && p.compute != FAST_TF32) return UNSUPPORTED;
    if (p.epilogue & ~7u || !p.epilogue || (p.epilogue & EPILOGUE_DEFAULT && p.epilogue != EPILOGUE_DEFAULT)) return INVALID;
    for (const Layout *l : {&a, &b, &c, &d})
        if (!l->rows || !l->columns || l->leading < int64_t(l->rows) || l->batch != d.batch || l->step < 0) return INVALID;
    const uint64_t k = p.ta == OP_T ? a.rows : a.columns;
    if ((p.ta == OP_T ? a.columns : a.rows) != d.rows || (p.tb == OP_T ? b.rows : b.columns) != d.columns) return INVALID;
    if ((p.tb == OP_T ? b.columns : b.rows) != k || c.rows != d.rows || c.columns != d.columns) return INVALID;
    if (d.batch > 1 && d.step < int64_t(d.rows * d.columns)) return INVALID;
    uint64_t hash = 17;
    for (uint64_t v : {d.rows, d.columns, k, uint64_t(a.leading), uint64_t(b.leading), uint64_t(d.leading), uint64_t(p.ta * 2 + p.tb), uint64_t(p.epilogue), uint64_t(d.batch), uint64_t(a.type)})
        hash = hash * 1000003 + v;
    *fits = hash;
    return OK;
}

}  // namespace

API size_t cublasLtGetVersion() { return FAKE_MAJOR * 10000 + 301; }

API const char *cublasLtGetStatusString(int status) {
    switch (status) {
        case INVALID: return "CUBLAS_STATUS_INVALID_VALUE";
        case FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
        case UNSUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
        default: return "CUBLAS_STATUS_OTHER";
    }
}

API int cublasLtCreate(void **made) {
    if (const int planted = enter("cublasLtCreate")) return planted;
    *made = new Handle;
    return OK;
}

API int cublasLtDestroy(void *p) { return as<Handle>(p, HANDLE) ? OK : INVALID; }

API int cublasLtMatrixLayoutCreate(void **made, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    if (const int planted = enter("cublasLtMatrixLayoutCreate")) return planted;
    Layout *l = new Layout;
    l->type = type, l->rows = rows, l->columns = columns, l->leading = leading;
    *made = l;
    ++alive;
    return OK;
}

API int cublasLtMatmulDescCreate(void **made, int compute, int scale) {
    if (const int planted = enter("cublasLtMatmulDescCreate")) return planted;
    Product *p = new Product;
    p->compute = compute, p->scale = scale;
    *made = p;
    ++alive;
    return OK;
}

API int cublasLtMatmulPreferenceCreate(void **made) {
    if (const int planted = enter("cublasLtMatmulPreferenceCreate")) return planted;
    *made = new Preference;
    ++alive;
    return OK;
}

API int cublasLtMatrixLayoutDestroy(void *p) { return destroy<Layout>("cublasLtMatrixLayoutDestroy", p, LAYOUT); }
API int cublasLtMatmulDescDestroy(void *p) { return destroy<Product>("cublasLtMatmulDescDestroy", p, PRODUCT); }
API int cublasLtMatmulPreferenceDestroy(void *p) { return destroy<Preference>("cublasLtMatmulPreferenceDestroy", p, PREFERENCE); }

API int cublasLtMatrixLayoutSetAttribute(void *p, int attribute, const void *value, size_t size) {
    if (const int planted = enter("cublasLtMatrixLayoutSetAttribute")) return planted;
    Layout *l = as<Layout>(p, LAYOUT);
    if (!l) return INVALID;
    if (attribute == 5) return take(l->batch, value, size);
    if (attribute == 6) return take(l->step, value, size);
    return INVALID;
}

API int cublasLtMatmulDescSetAttribute(void *p, int attribute, const void *value, size_t size) {
    if (const int planted = enter("cublasLtMatmulDescSetAttribute")) return planted;
    Product *d = as<Product>(p, PRODUCT);
    if (!d) return INVALID;
    if (attribute == 3) return take(d->ta, value, size);
    if (attribute == 4) return take(d->tb, value, size);
    if (attribute == 7) return take(d->epilogue, value, size);
    if (attribute == 8) return take(d->bias, value, size);
    return INVALID;
}

API int cublasLtMatmulPreferenceSetAttribute(void *p, int attribute, const void *value, size_t size) {
    if (const int planted = enter("cublasLtMatmulPreferenceSetAttribute")) return planted;
    Preference *f = as<Preference>(p, PREFERENCE);
    if (!f) return INVALID;
    if (attribute == 1) return take(f->workspace, value, size);
    if (attribute == 3) return take(f->reductions, value, size);
    if (attribute >= 5 && attribute <= 8) return take(f->alignment[attribute - 5], value, size);
    return INVALID;
}

// What an estimate might say: an algorithm that fails, one that adds parts in the result's type, one that adds them in
// the type of sums, and one that needs no workspace.
API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *product, void *pa, void *pb, void *pc, void *pd, void *preference, int wanted, Heuristic *results, int *found) {
    if (const int planted = enter("cublasLtMatmulAlgoGetHeuristic")) return planted;
    const Product *p = as<Product>(product, PRODUCT);
    const Layout *a = as<Layout>(pa, LAYOUT), *b = as<Layout>(pb, LAYOUT), *c = as<Layout>(pc, LAYOUT), *d = as<Layout>(pd, LAYOUT);
    const Preference *f = as<Preference>(preference, PREFERENCE);
    if (!as<Handle>(handle, HANDLE) || !p || !a || !b || !c || !d || !f || wanted < 1 || !results || !found) return INVALID;
    uint64_t fits;
    if (const int status = consistent(*p, *a, *b, *c, *d, &fits)) return status;
    if (p->epilogue & BIAS && !p->bias) return INVALID;
    uint64_t alignment = 0;
    for (uint32_t v : f->alignment) alignment |= v;
    *found = 0;
    const auto add = [&](uint64_t id, uint64_t workspace, int state) {
        if (*found == wanted || workspace > f->workspace) return;
        results[(*found)++] = Heuristic{{MAGIC, id, workspace, alignment & -alignment, fits, {}}, workspace, state, 1.0f, {}};
    };
    if (knob("none")) return OK;
    add(PLAIN, 0, UNSUPPORTED);
    if (f->reductions & 5) add(SPLIT_IN_OUTPUT_TYPE, 512, OK);
    if (f->reductions & 2) add(SPLIT, 256, OK);
    add(PLAIN, 0, OK);
    return OK;
}

API int
#ifdef FAKE_LACKS
cublasLtSomething
#else
cublasLtMatmul
#endif
(void *handle, void *product, const void *alpha, const void *pa, void *la, const void *pb, void *lb, const void *beta, const void *pc, void *lc, void *pd, void *ld, const Algorithm *algorithm, void *workspace, size_t bytes, void *stream) {
    if (const int planted = enter("cublasLtMatmul")) return planted;
    const Product *p = as<Product>(product, PRODUCT);
    const Layout *a = as<Layout>(la, LAYOUT), *b = as<Layout>(lb, LAYOUT), *c = as<Layout>(lc, LAYOUT), *d = as<Layout>(ld, LAYOUT);
    if (!as<Handle>(handle, HANDLE)) return NOT_INITIALIZED;
    if (!p || !a || !b || !c || !d || !alpha || !beta || !pa || !pb || !pd || !algorithm) return INVALID;
    uint64_t fits;
    if (const int status = consistent(*p, *a, *b, *c, *d, &fits)) return status;
    if (algorithm->magic != MAGIC || algorithm->fits != fits) return INVALID;
    if (knob("refuse") == long(algorithm->id)) return UNSUPPORTED;
    if (bytes < algorithm->workspace || (algorithm->workspace && (!workspace || uintptr_t(workspace) % 16))) return INVALID;
    if (p->epilogue & BIAS && !p->bias) return INVALID;
    for (const void *at : {pa, pb, static_cast<const void *>(pd), p->epilogue & BIAS ? p->bias : pd})
        if (uintptr_t(at) % algorithm->alignment) return FAILED;
    const bool is_double = d->type == DOUBLE;
    const double by = is_double ? *static_cast<const double *>(alpha) : *static_cast<const float *>(alpha);
    const double old = is_double ? *static_cast<const double *>(beta) : *static_cast<const float *>(beta);
    if (by != 1 || old != 0 || pc != pd) return UNSUPPORTED;  // not what this is for
    const auto compute = [=, p = *p, a = *a, b = *b, d = *d, id = algorithm->id, nbytes = algorithm->workspace] {
        if (nbytes) std::memset(workspace, 0xff, nbytes);
        const bool reduced = p.compute == FAST_TF32;
        const long k = long(p.ta == OP_T ? a.rows : a.columns);
        for (long batch = 0; batch < d.batch; ++batch)
            for (long j = 0; j < long(d.columns); ++j)
                for (long i = 0; i < long(d.rows); ++i) {
                    double sum = 0;
                    for (long s = 0; s < k; ++s) {
                        const long x = p.ta == OP_T ? i * a.leading + s : s * a.leading + i;
                        const long y = p.tb == OP_T ? s * b.leading + j : j * b.leading + s;
                        sum += load(pa, batch * a.step + x, a.type, reduced) * load(pb, batch * b.step + y, b.type, reduced);
                        if (id == SPLIT_IN_OUTPUT_TYPE) {
                            alignas(8) char part[8];
                            store(part, 0, d.type, sum);
                            sum = load(part, 0, d.type, false);
                        }
                    }
                    if (p.epilogue & BIAS) sum += load(p.bias, i, d.type, false);
                    if (p.epilogue & RELU) sum = sum > 0 ? sum : 0;
                    store(pd, batch * d.step + j * d.leading + i, d.type, sum);
                }
    };
    if (knob("allocates") && !allocates()) return FAILED;
    if (!on_stream(stream, compute)) return FAILED;
    std::lock_guard<std::mutex> lock(guard);
    last_stream = stream;
    last_algorithm = long(algorithm->id);
    return OK;
}

// -- for tests

API long fake_count(const char *name) {
    std::lock_guard<std::mutex> lock(guard);
    return counts[name];
}
API void fake_plant(const char *name, long value) {
    std::lock_guard<std::mutex> lock(guard);
    planted[name] = value;
}
API long fake_alive() { return alive; }
API long fake_algorithm() { return last_algorithm; }
API size_t fake_stream() { return reinterpret_cast<size_t>(last_stream); }
