// SPDX-License-Identifier: Apache-2.0
// How the stand-ins of NVIDIA's libraries start something on a stream. Whoever loads one may say what becomes of it: it may run
// at once or later, or become part of a CUDA graph, which runs it any number of times. Otherwise CUDA's driver, if there is one
// in the process, has it as a function of the host, which a stream that is captured makes a node. Without one it runs at once.
#pragma once

#include <dlfcn.h>

#include <functional>
#include <list>
#include <mutex>

namespace {

typedef void (*Task)(void *);
void (*given)(void *stream, Task, void *data) = nullptr;

void *driver() {
    static void *const found = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    return found;
}

// Takes memory of the device and gives it back, as libraries may that load something late; false where the driver refuses it.
bool allocates() {
    typedef int (*Allocate)(void **, size_t);
    typedef int (*Free)(void *);
    void *p = nullptr;
    if (!driver()) return true;
    if (reinterpret_cast<Allocate>(dlsym(driver(), "cuMemAlloc_v2"))(&p, 256)) return false;
    return reinterpret_cast<Free>(dlsym(driver(), "cuMemFree_v2"))(p) == 0;
}

// False where the driver refuses it.
bool on_stream(void *stream, std::function<void()> work) {
    static std::mutex guard;
    static std::list<std::function<void()>> all;  // kept: a graph may repeat any of them
    std::function<void()> *held;
    {
        std::lock_guard<std::mutex> lock(guard);
        all.push_back(std::move(work));
        held = &all.back();
    }
    const Task task = [](void *data) { (*static_cast<std::function<void()> *>(data))(); };
    typedef int (*LaunchHostFunc)(void *, Task, void *);
    static const LaunchHostFunc launch =
        driver() ? reinterpret_cast<LaunchHostFunc>(dlsym(driver(), "cuLaunchHostFunc")) : nullptr;
    if (given) return given(stream, task, held), true;
    if (launch) return launch(stream, task, held) == 0;
    return task(held), true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void fake_on_stream(void (*function)(void *, Task, void *)) { given = function; }
