// SPDX-License-Identifier: Apache-2.0
// Part of libcuda that remembers what it was asked to do. With CUDA's own header at hand the compiler compares the
// signatures; without it these declarations stand for it.
#include <cstddef>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#if __has_include(<cuda.h>)
#include <cuda.h>
#else
typedef int CUresult;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUstream_st *CUstream;
typedef struct CUkern_st *CUkernel;
typedef struct CUctx_st *CUcontext;
struct CUDA_KERNEL_NODE_PARAMS {
    CUfunction func;
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void **kernelParams, **extra;
    CUkernel kern;
    CUcontext ctx;
};
typedef int CUlaunchAttributeID;
union CUlaunchAttributeValue {
    char pad[64];
    int cooperative;
};
#define CU_LAUNCH_ATTRIBUTE_COOPERATIVE 2
#define cuGraphAddKernelNode cuGraphAddKernelNode_v2
#define cuGraphInstantiate cuGraphInstantiateWithFlags
#define cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
typedef int CUstreamCaptureMode;
#define CU_STREAM_CAPTURE_MODE_THREAD_LOCAL 1
#define CU_STREAM_NON_BLOCKING 1
#endif

struct CUfunc_st {  // the test makes these
    long long id, arguments;
};
typedef std::vector<std::vector<long long>> Calls;
struct CUgraphNode_st {
    CUgraphNode before;
    Calls calls;  // one of a kernel, any number of a graph
    bool cooperative, child;
};
struct CUgraph_st {
    std::vector<CUgraphNode> nodes;
    Calls calls() const {
        Calls all;
        for (auto n : nodes) all.insert(all.end(), n->calls.begin(), n->calls.end());
        return all;
    }
};
struct CUgraphExec_st {
    std::vector<CUgraphNode> nodes;
    std::vector<Calls> calls;
};
struct CUstream_st {
    CUgraph captured;
};
static std::set<CUstream> streams;

static std::vector<long long> log_;
static std::string failing;
static long long alive;
static long long together;  // cooperative launches, alone or in graphs

static CUresult result(const char *name) { return (CUresult)(failing == name ? 801 : 0); }

static std::vector<long long> call_of(const CUDA_KERNEL_NODE_PARAMS &p) {
    std::vector<long long> call = {p.func->id,    p.gridDimX,  p.gridDimY,       p.gridDimZ,
                                   p.blockDimX,   p.blockDimY, p.blockDimZ,      p.sharedMemBytes,
                                   p.extra != nullptr, p.kern != nullptr, p.ctx != nullptr, p.func->arguments};
    for (long long k = 0; k < p.func->arguments; ++k) {
        long long value;
        std::memcpy(&value, p.kernelParams[k], 8);
        call.push_back(value);
    }
    return call;
}

extern "C" {
CUresult cuGraphDestroy(CUgraph graph);
void fake_fail(const char *name) { failing = name; }
long long fake_alive() { return alive; }
long long fake_together() { return together; }
long long fake_log(long long *into, long long room) {
    long long n = (long long)log_.size();
    for (long long k = 0; k < n && k < room; ++k) into[k] = log_[k];
    log_.clear();
    return n;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags) {
    if (flags) return (CUresult)1;
    if (CUresult r = result("cuGraphCreate")) return r;
    *graph = new CUgraph_st;
    ++alive;
    return (CUresult)0;
}
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS *params) {
    if (count > 1 || (count == 0) != (dependencies == nullptr)) return (CUresult)1;
    if (CUresult r = result("cuGraphAddKernelNode_v2")) return r;
    *node = new CUgraphNode_st{count ? dependencies[0] : nullptr, {call_of(*params)}, false, false};
    graph->nodes.push_back(*node);
    return (CUresult)0;
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUlaunchAttributeID attribute,
                                       const CUlaunchAttributeValue *value) {
    if (attribute != CU_LAUNCH_ATTRIBUTE_COOPERATIVE || node->child) return (CUresult)1;
    node->cooperative = value->cooperative;
    return result("cuGraphKernelNodeSetAttribute");
}
CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    if (flags) return (CUresult)1;
    if (CUresult r = result("cuGraphInstantiateWithFlags")) return r;
    *exec = new CUgraphExec_st{graph->nodes, {}};
    for (size_t k = 0; k < graph->nodes.size(); ++k) {
        if (graph->nodes[k]->before != (k ? graph->nodes[k - 1] : nullptr)) return (CUresult)1;  // no chain
        (*exec)->calls.push_back(graph->nodes[k]->calls);
    }
    ++alive;
    return (CUresult)0;
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params) {
    for (size_t k = 0; k < exec->nodes.size(); ++k)
        if (exec->nodes[k] == node && !node->child) {
            exec->calls[k] = {call_of(*params)};
            return result("cuGraphExecKernelNodeSetParams");
        }
    return (CUresult)400;
}
CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    if (flags != CU_STREAM_NON_BLOCKING) return (CUresult)1;
    streams.insert(*stream = new CUstream_st{nullptr});
    ++alive;
    return result("cuStreamCreate");
}
CUresult cuStreamDestroy(CUstream stream) {
    if (!streams.erase(stream)) return (CUresult)400;
    delete stream;
    --alive;
    return (CUresult)0;
}
CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
    if (!streams.count(stream) || stream->captured || mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return (CUresult)900;
    if (CUresult r = result("cuStreamBeginCapture_v2")) return r;
    ++alive;
    stream->captured = new CUgraph_st;
    return (CUresult)0;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    if (!streams.count(stream) || !stream->captured) return (CUresult)905;
    *graph = stream->captured;
    stream->captured = nullptr;
    const CUresult r = result("cuStreamEndCapture");
    if (r) cuGraphDestroy(*graph), *graph = nullptr;  // nothing is given then
    return r;
}
CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                  CUgraph child) {
    if (count > 1 || (count == 0) != (dependencies == nullptr)) return (CUresult)1;
    if (CUresult r = result("cuGraphAddChildGraphNode")) return r;
    *node = new CUgraphNode_st{count ? dependencies[0] : nullptr, child->calls(), false, true};
    graph->nodes.push_back(*node);
    return (CUresult)0;
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
    for (size_t k = 0; k < exec->nodes.size(); ++k)
        if (exec->nodes[k] == node && node->child) {
            if (exec->calls[k].size() != child->calls().size()) return (CUresult)910;  // another topology
            exec->calls[k] = child->calls();
            return result("cuGraphExecChildGraphNodeSetParams");
        }
    return (CUresult)400;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    for (auto &calls : exec->calls)
        for (auto &call : calls) {
            log_.push_back((long long)stream);
            log_.insert(log_.end(), call.begin(), call.end());
        }
    for (auto node : exec->nodes) together += node->cooperative;
    return result("cuGraphLaunch");
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
    delete exec;
    --alive;
    return (CUresult)0;
}
CUresult cuGraphDestroy(CUgraph graph) {
    for (auto node : graph->nodes) delete node;
    delete graph;
    --alive;
    return (CUresult)0;
}
CUresult cuGetErrorName(CUresult error, const char **text) {
    *text = (int)error == 801 ? "CUDA_ERROR_NOT_SUPPORTED" : nullptr;
    return (CUresult)(*text ? 0 : 1);
}
CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = (int)error == 801 ? "operation not supported" : nullptr;
    return (CUresult)(*text ? 0 : 1);
}
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                        void **extra) {
    CUDA_KERNEL_NODE_PARAMS p;
    std::memset(&p, 0, sizeof p);
    p.func = f, p.gridDimX = gx, p.gridDimY = gy, p.gridDimZ = gz, p.blockDimX = bx, p.blockDimY = by;
    p.blockDimZ = bz, p.sharedMemBytes = shared, p.kernelParams = params, p.extra = extra;
    if (streams.count(stream) && stream->captured) {
        stream->captured->nodes.push_back(new CUgraphNode_st{nullptr, {call_of(p)}, false, false});
        return result("cuLaunchKernel");
    }
    log_.push_back((long long)stream);
    auto call = call_of(p);
    log_.insert(log_.end(), call.begin(), call.end());
    return result("cuLaunchKernel");
}
CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                   unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                                   void **params) {
    ++together;
    cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, nullptr);
    return result("cuLaunchCooperativeKernel");
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int threads, size_t shared) {
    *blocks = (int)(f->id * 2048 / threads - shared / 1024);
    return result("cuOccupancyMaxActiveBlocksPerMultiprocessor");
}
}
