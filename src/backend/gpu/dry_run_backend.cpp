#include "backend/gpu/dry_run_backend.h"

#include <algorithm>
#include <cstdint>

#include "backend/feed_slots.h"
#include "ops/jitter.h"

namespace convoy {
namespace {

constexpr size_t alignment = 256;  // cudaMalloc's

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

MemoryBudget budget_of(size_t memory, const std::string& whose) {
    const MemoryLimit limit{.left = memory, .name = whose, .remedy = "", .group = "", .shared_counts = true};
    return MemoryBudget({{limit, 1}}, 1, "the GPU of each rank");
}

[[noreturn]] void fail_to_run() { throw std::logic_error("nothing runs on a backend that only plans"); }

/// Two blocks on the device, and three StagedBatch: one for each block and one that the step reads.
class DryRunFeed final : public Feed {
public:
    DryRunFeed(TensorMemory& backend, size_t block_bytes)
        : blocks_{backend.allocate(block_bytes), backend.allocate(block_bytes)},
          batches_(backend.allocate(3 * sizeof(StagedBatch))) {}
    const StagedBatch* batch() const override { return static_cast<const StagedBatch*>(batches_.get()); }
    bool ready() override { return true; }
    HostBatch claim(size_t) override { fail_to_run(); }
    void begin_step() override { fail_to_run(); }
    void take() override { fail_to_run(); }
    void clear() override {}

private:
    Buffer blocks_[2], batches_;
};

}  // namespace

DryRunBackend::DryRunBackend(const std::string& title, size_t memory, const std::string& whose,
                             const cuda::AlgorithmOptions& options, size_t bucket_bytes)
    : options_(options), budget_(budget_of(memory, whose)) {
    facts_.device = facts_.kind = title;
    facts_.bucket_bytes = bucket_bytes;
    facts_.channel_multiple = tensor_core_multiple;
}

Buffer DryRunBackend::take(size_t bytes, const std::string& what, const std::string& advice) {
    bytes = rounded(std::max<size_t>(bytes, 1), alignment);
    budget_.take_or_fail(bytes, what, advice);
    constexpr uintptr_t first = uintptr_t(1) << 20;           // so that no tensor is null
    void* address = reinterpret_cast<void*>(first + taken_);  // NOLINT(performance-no-int-to-ptr): never read
    taken_ += bytes;
    return Buffer(address, [](void*) {});
}

Buffer DryRunBackend::allocate(size_t bytes) { return take(bytes, "a block of tensors", "use a smaller batch"); }
Buffer DryRunBackend::resident(void*, size_t bytes) { return take(bytes, "the data set", "use a smaller data set"); }

std::shared_ptr<const Algorithms> DryRunBackend::select(const ProgramShape& program) {
    return std::make_shared<cuda::GpuAlgorithms>(cuda::select_unmeasured(program, options_));
}

// Counts what CudaBackend::gather() allocates: constants of normalising, and draws per image.
void DryRunBackend::gather(const Gather& g, Tape&) {
    const auto n = size_t(g.x.shape.n);
    allocate(2 * g.mean.size() * sizeof(float));
    if (g.augment.mixes()) allocate(n * sizeof(Mix));
    if (g.augment.jitters()) allocate((n + 1) * sizeof(Jitter));
}

void DryRunBackend::forward(const Op& op, const OpArguments& b, Tape&) {
    if (const auto* conv = std::get_if<Conv>(&op)) copy_weight(b.params[conv->weight], b.values[conv->x].dtype);
    if (const auto* linear = std::get_if<Linear>(&op)) copy_weight(b.params[linear->weight], b.values[linear->x].dtype);
}

void DryRunBackend::copy_weight(const Tensor& weight, DType type) {
    if (type == DType::f32 || !copied_.insert(weight.data).second) return;
    const Shape& s = weight.shape;
    const size_t filters = rounded(size_t(s.n), tensor_core_multiple),
                 channels = rounded(size_t(s.c), tensor_core_multiple);
    copies_.push_back(allocate(filters * size_t(s.h) * size_t(s.w) * channels * size_of(type)));
}

std::unique_ptr<Feed> DryRunBackend::feed(int rows, size_t image_bytes, int) {
    return std::make_unique<DryRunFeed>(*this, FeedLayout(rows).bytes(image_bytes));
}

std::function<void()> DryRunBackend::finish(Tape) {
    return [] { fail_to_run(); };
}

}  // namespace convoy
