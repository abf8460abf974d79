// A GPU that is absent or must not be used: it counts the memory of programs, and runs none.
// Tensors have addresses without memory. Not counted: workspaces of cuDNN's plans, which only cuDNN
// knows, and Muon's scratch. Batch norms run as --norm-by says, as if cuDNN had every plan. Where
// times would decide, they run by our kernels.
#pragma once
#include <set>

#include "backend/backend.h"
#include "backend/gpu/algorithms.h"
#include "base/memory_budget.h"

namespace convoy {

class DryRunBackend : public Backend {
public:
    /// `title` is for people. `memory` is how many bytes tensors may take, and `whose` names them:
    /// "the memory of an h100".
    DryRunBackend(const std::string& title, size_t memory, const std::string& whose, const cuda::AlgorithmOptions&,
                  size_t bucket_bytes);

    SystemSample sample() override { return {}; }
    size_t memory_taken() const override { return taken_; }
    std::optional<size_t> device_memory_free() const override { return budget_.left(); }
    Buffer allocate(size_t bytes) override;
    Buffer resident(void*, size_t bytes) override;
    Buffer mapped(void*, size_t) override { return allocate(0); }
    void upload(void*, const void*, size_t) override {}
    void download(void*, const void*, size_t) override {}
    std::shared_ptr<const Algorithms> select(const ProgramShape&) override;

    void forward(const Op&, const OpArguments&, Tape&) override;
    void backward(const Op&, const OpArguments&, Tape&) override {}
    std::unique_ptr<Feed> feed(int rows, size_t image_bytes, int ahead) override;
    void gather(const Gather&, Tape&) override;
    void zero(Tensor, Tape&) override {}
    void add_scaled(const Tensor&, float, const Tensor&, bool, Tape&) override {}
    void request(const Requests*, BatchStats*, BatchStats*, Tape&) override {}
    void allreduce(Tensor, size_t, Tape&) override {}
    void allreduce_into(Tensor, Tensor, Tape&) override {}
    void wait_allreduce(Tape&) override {}
    void accumulate_exact(const ExactSums&, const float*, size_t, size_t, Tape&) override {}
    void allreduce(const ExactSums&, size_t, size_t, Tape&) override {}
    void finalize_exact(const ExactSums&, float*, Tape&) override {}
    void update(const Update&, Tape&) override {}
    void look_ahead(const LookAhead&, Tape&) override {}
    void record(const Record&, Tape&) override {}
    void checksum(const Checksum&, Tape&) override {}
    void accumulate(const BatchStats*, EvalTotals*, int64_t, Counters*, int64_t, Tape&) override {}
    std::function<void()> finish(Tape) override;
    std::vector<double> time_launches(const Tape&) override { return {}; }
    void synchronize() override {}

private:
    Buffer take(size_t bytes, const std::string& what, const std::string& advice);
    /// Allocates the padded copy in low precision that GEMMs read instead of a weight.
    void copy_weight(const Tensor& weight, DType);

    const cuda::AlgorithmOptions options_;
    MemoryBudget budget_;
    size_t taken_ = 0;              // bytes
    std::set<const void*> copied_;  // weights that already have a copy
    std::vector<Buffer> copies_;
};

}  // namespace convoy
