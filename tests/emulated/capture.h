// Streams and events of the emulated device, and captures of their work. The rules are those of the
// CUDA programming guide, "Creating a Graph Using Stream Capture": a call that a capture forbids
// fails, and makes the capture invalid.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tests/emulated/order.h"

namespace convoy::test {

/// A node of a graph comes after those at these indices.
struct Node {
    Work work;
    std::vector<size_t> after;
};

struct Capture {
    cudaStreamCaptureMode mode{};
    std::thread::id thread;
    cudaStream_t origin = nullptr;
    std::set<cudaStream_t> streams;
    std::vector<Node> nodes;
    bool active = true, invalid = false;

    void add(cudaStream_t, Work);
    /// Takes the streams out of the capture. Returns the error of the capture.
    cudaError_t end(cudaStream_t);

private:
    bool joined() const;
};

}  // namespace convoy::test

struct CUstream_st {
    bool blocking = false, urgent = false;
    convoy::test::Pending::Id last = 0;
    bool timed = false;  // an event with timing was the last that was put on it
    std::shared_ptr<convoy::test::Capture> capture{};
    std::vector<size_t> leaves{};  // in the capture: the nodes that the next one comes after
};
struct CUevent_st {
    bool timing = false;
    convoy::test::Pending::Id work = 0;  // the last one before the event
    std::shared_ptr<convoy::test::Capture> capture{};
    std::vector<size_t> leaves{};
};
struct CUgraph_st {
    std::vector<convoy::test::Node> nodes;
};
struct CUgraphExec_st {
    std::vector<convoy::test::Node> nodes;
    bool node_priorities = false;        // otherwise every node has the priority of the launch's stream
    convoy::test::Pending::Id last = 0;  // launches of one graph run one after the other
};

namespace convoy::test {

/// The captures in progress.
class Captures {
public:
    cudaError_t begin(cudaStream_t, cudaStreamCaptureMode);
    cudaError_t end(cudaStream_t, cudaGraph_t*);
    /// Makes a capture invalid because of a call that it forbids. Returns the error.
    static cudaError_t refuse(Capture&, cudaError_t);
    /// Makes the legacy stream wait for blocking streams. Fails if one of them is in a capture.
    cudaError_t use_legacy();
    cudaError_t make_unsafe_call();
    bool any() const { return !active_.empty(); }

private:
    std::vector<std::shared_ptr<Capture>> active_;
};

}  // namespace convoy::test
