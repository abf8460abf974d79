// The CPU backend's feed: a step reads a batch where the host wrote it.
#include <cstdlib>
#include <new>

#include "backend/cpu/cpu_backend.h"
#include "backend/feed_slots.h"

namespace convoy::cpu {
namespace {

class HostFeed final : public Feed {
public:
    /// `step_started` belongs to the backend, in seconds on a steady clock.
    HostFeed(MemoryBudget& budget, double& step_started, int rows, size_t image_bytes, int ahead)
        : budget_(budget),
          step_started_(step_started),
          layout_(rows),
          image_bytes_(image_bytes),
          turns_(ahead),
          slots_(turns_.slots()) {
        for (Slot& slot : slots_) allocate(slot);
    }

    const StagedBatch* batch() const override { return &batch_; }
    bool ready() override { return true; }  // steps have ended when their launch returns
    HostBatch claim(size_t image_bytes) override {
        Slot& slot = slots_[turns_.claim()];
        if (image_bytes > image_bytes_) image_bytes_ = grown(image_bytes_, image_bytes);
        if (image_bytes > slot.image_bytes) allocate(slot);
        return layout_.host(slot.block.get());
    }
    void begin_step() override { step_started_ = now(); }
    void take() override { batch_ = layout_.staged(slots_[turns_.take()].block.get()); }
    void clear() override { turns_.clear(); }

private:
    struct Slot {
        Buffer block{};
        size_t image_bytes = 0;  // room for images
    };
    void allocate(Slot& slot) {
        slot = {};
        const size_t bytes = whole_pages(layout_.bytes(image_bytes_));
        budget_.take_or_fail(bytes, "a batch that is read ahead", "use a smaller batch or fewer ranks per node");
        const auto release = [&budget = budget_, bytes](void* block) {
            std::free(block);
            budget.give(bytes);
        };
        slot.block = Buffer(allocate_pages(bytes), release);
        if (!slot.block) throw std::bad_alloc();
        slot.image_bytes = image_bytes_;
    }

    MemoryBudget& budget_;
    double& step_started_;
    const FeedLayout layout_;
    size_t image_bytes_;  // for the next slot that is allocated
    FeedTurns turns_;
    std::vector<Slot> slots_;
    StagedBatch batch_{};
};

}  // namespace

std::unique_ptr<Feed> CpuBackend::feed(int rows, size_t image_bytes, int ahead) {
    return std::make_unique<HostFeed>(*budget_, clock_->started, rows, image_bytes, ahead);
}

}  // namespace convoy::cpu
