// cuDNN's graph API in plain types: a graph is built from a spec, its candidate plans are built
// and run by index. The only file that includes cudnn-frontend is cudnn_graph.cpp, because that
// takes most of a minute to compile.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "backend/gpu/plan_spec.h"

namespace convoy::cuda {

/// What plans are made for: the current device, or a chip that is not there, known by its
/// description.
class Cudnn {
public:
    explicit Cudnn(cudaStream_t);  ///< throws Exit::usage if cuDNN cannot use the device
    static Cudnn of_chip(const std::string& description);
    /// What of_chip takes, of a device that is there: cuDNN's own text, for chips.cpp.
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

/// What cuDNN knows the device by while it builds plans: its handle, which one thread may use at a
/// time, or the device's properties, which any number of threads may. A chip that is not there has
/// properties only.
enum class BuildWith { handle, properties };

class CudnnGraph {
public:
    /// Asks heuristics A, then the fallback list. Engines that are not deterministic, or not as
    /// exact as the spec asks for, are no candidates. A graph that no engine supports has none.
    CudnnGraph(const Cudnn&, const PlanSpec&, BuildWith = BuildWith::handle);
    ~CudnnGraph();

    int candidates() const;
    /// The engine and its knobs: the same text means the same plan on the same chip and cuDNN
    /// version.
    std::string name(int candidate) const;
    /// Whether the plan's kernels are compiled as it is built, for half a second and with the
    /// driver.
    bool compiles(int candidate) const;
    /// Builds the plan; false and the reason if cuDNN cannot after all.
    bool build(int candidate, std::string& why);
    size_t workspace(int candidate) const;  ///< bytes, of a built plan
    /// Puts a built plan on the stream, with the handle.
    void run(int candidate, const std::vector<std::pair<Slot, void*>>& operands, void* workspace, cudaStream_t) const;
    const std::string& reason() const;  ///< why there are no candidates
    /// What is asked of cuDNN: a line for each operation, by operand, then one for each tensor.
    std::string text() const;

private:
    struct Native;
    std::unique_ptr<Native> native_;
};

}  // namespace convoy::cuda
