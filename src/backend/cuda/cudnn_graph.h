// cuDNN's graph API in plain types. A graph is built from a spec; its candidate plans are built and
// run by index. Only cudnn_graph.cpp includes cudnn-frontend, which takes most of a minute to
// compile.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "backend/gpu/plan_spec.h"

namespace convoy::cuda {

/// The device that plans are built for: the current one, or an absent chip with a known
/// description.
class Cudnn {
public:
    explicit Cudnn(cudaStream_t);  ///< throws Exit::usage if cuDNN cannot use the device
    static Cudnn of_chip(const std::string& description);
    /// Returns cuDNN's description of a present device, as of_chip() takes it, for chips_test.cpp.
    static std::string description(int device);
    ~Cudnn();
    Cudnn(Cudnn&&) noexcept;

    struct Native;
    const Native& native() const { return *native_; }

    static std::string version();

private:
    Cudnn();
    std::unique_ptr<Native> native_;
};

class CudnnGraph {
public:
    /// Builds the graph and lists its candidates: those of heuristics A, then the fallback list.
    /// Leaves out engines that are not deterministic, or less exact than the spec demands.
    CudnnGraph(const Cudnn& cudnn, const PlanSpec& spec) : CudnnGraph(cudnn, spec, &cudnn) {}
    /// Runs with the handle of `runs`. Builds with that of `builds`, which must outlive the graph,
    /// or with the device's properties if `builds` is null or an absent chip. Only one thread at a
    /// time may use a handle; any number of threads may use the device's properties.
    CudnnGraph(const Cudnn& runs, const PlanSpec&, const Cudnn* builds);
    ~CudnnGraph();

    int candidates() const;
    /// Returns the engine and its knobs. With the same chip and cuDNN version, the same text means
    /// the same plan.
    std::string name(int candidate) const;
    /// Returns true if building the plan compiles kernels, which takes half a second and needs the
    /// driver.
    bool compiles(int candidate) const;
    /// Builds the plan. Returns false and sets `why` if cuDNN cannot.
    bool build(int candidate, std::string& why);
    size_t workspace(int candidate) const;  ///< bytes; only of a built plan
    /// Launches a built plan on the stream, with the handle.
    void run(int candidate, const std::vector<std::pair<Slot, void*>>& operands, void* workspace, cudaStream_t) const;
    const std::string& reason() const;  ///< why there are no candidates
    /// Returns the graph as text: a line for each operation with its operands, and for each tensor.
    std::string text() const;

private:
    struct Native;
    std::unique_ptr<Native> native_;
};

}  // namespace convoy::cuda
