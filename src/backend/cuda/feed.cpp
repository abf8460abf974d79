// The feed of a GPU. The host writes into pinned blocks. A separate stream copies a batch to one of
// two blocks on the device while steps read the other. A captured step reads the StagedBatch at a
// fixed address; take() overwrites it between launches, so no event of the feed is in a graph.
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "backend/cuda/cuda_backend.h"
#include "backend/feed_slots.h"

namespace convoy::cuda {
namespace {

class DeviceFeed final : public Feed {
public:
    using Passed = std::function<bool(cudaEvent_t)>;
    /// `started`: on the device, time stamp of the step's start. `passed`: returns true if the
    /// device has reached an event.
    DeviceFeed(Backend& backend, cudaStream_t compute, uint64_t* started, Passed passed, const FeedLayout& layout,
               size_t image_bytes, int ahead)
        : backend_(backend),
          compute_(compute),
          started_(started),
          passed_(std::move(passed)),
          layout_(layout),
          turns_(ahead),
          host_(turns_.slots()),
          batches_(backend.allocate(3 * sizeof(StagedBatch))) {
        grow_device(image_bytes);
        for (HostSlot& slot : host_) slot.allocate(layout_, image_bytes);
    }
    ~DeviceFeed() override { cudaStreamSynchronize(upload_.get()); }
    DeviceFeed(const DeviceFeed&) = delete;

    const StagedBatch* batch() const override { return static_cast<const StagedBatch*>(batches_.get()); }
    bool ready() override { return passed_(host_[turns_.next()].uploaded.get()); }
    HostBatch claim(size_t image_bytes) override;
    void begin_step() override { kernels::mark(started_, compute_); }
    void take() override;
    void clear() override { turns_.clear(); }

private:
    struct HostSlot {
        std::optional<PinnedMemory> block;
        size_t image_bytes = 0;  // capacity for images
        size_t used = 0;         // bytes of the block that its batch fills
        Event uploaded;          // after the last copy from this block
        void allocate(const FeedLayout&, size_t image_bytes);
    };
    struct DeviceSlot {
        Buffer block{};
        Event read;  // after the last step that reads this block
    };
    void grow_device(size_t image_bytes);

    Backend& backend_;
    const cudaStream_t compute_;
    uint64_t* const started_;
    const Passed passed_;
    const FeedLayout layout_;
    FeedTurns turns_;
    std::vector<HostSlot> host_;
    DeviceSlot device_[2];
    size_t current_ = 0;      // index of the slot that steps read
    size_t image_bytes_ = 0;  // capacity for images of each device slot
    Buffer batches_;          // StagedBatch [3] on the device: the one that steps read, then one per slot
    const Stream upload_{true};
};

void DeviceFeed::HostSlot::allocate(const FeedLayout& layout, size_t bytes) {
    block.reset();
    image_bytes = 0;
    try {
        block.emplace(layout.bytes(bytes));
    } catch (const std::bad_alloc&) {
        fail(Exit::out_of_memory, "out of memory: cannot pin " + std::to_string(layout.bytes(bytes) >> 20) +
                                      " MiB of the host for a batch that is read ahead; use a smaller batch or fewer "
                                      "ranks per node");
    }
    image_bytes = bytes;
}

/// Enlarges both slots. The contents of the current slot are moved; the other slot holds no batch.
void DeviceFeed::grow_device(size_t image_bytes) {
    backend_.synchronize();  // also waits for the last upload, because the compute stream does
    for (size_t i = 0; i < 2; ++i) {
        Buffer& block = device_[i].block;
        if (i != current_) block.reset();
        Buffer larger = backend_.allocate(layout_.bytes(image_bytes));
        if (block)
            check(cudaMemcpyAsync(larger.get(), block.get(), layout_.bytes(image_bytes_), cudaMemcpyDeviceToDevice,
                                  compute_),
                  "moving a batch");
        backend_.synchronize();
        block = std::move(larger);
    }
    image_bytes_ = image_bytes;
    const auto of = [&](size_t slot) { return layout_.staged(device_[slot].block.get()); };
    const StagedBatch batches[] = {of(current_), of(0), of(1)};
    backend_.upload(batches_.get(), batches, sizeof batches);
}

HostBatch DeviceFeed::claim(size_t image_bytes) {
    HostSlot& slot = host_[turns_.claim()];
    while (!passed_(slot.uploaded.get())) std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (image_bytes > image_bytes_) grow_device(grown(image_bytes_, image_bytes));
    if (image_bytes > slot.image_bytes) slot.allocate(layout_, image_bytes_);
    slot.used = layout_.bytes(image_bytes);
    return layout_.host(slot.block->get());
}

void DeviceFeed::take() {
    HostSlot& from = host_[turns_.take()];
    const DeviceSlot &last = device_[current_], &to = device_[1 - current_];
    // 1. All steps that read the last batch are launched; the upload after this one waits for them.
    check(cudaEventRecord(last.read.get(), compute_), "marking the end of a step");
    // 2. Upload to the slot of the batch before the last one, once the steps that read it have
    // ended.
    check(cudaStreamWaitEvent(upload_.get(), to.read.get(), 0), "uploading a batch");
    check(cudaMemcpyAsync(to.block.get(), from.block->get(), from.used, cudaMemcpyHostToDevice, upload_.get()),
          "uploading a batch");
    check(cudaEventRecord(from.uploaded.get(), upload_.get()), "uploading a batch");
    // 3. Steps that are launched from here on read the new batch.
    current_ = 1 - current_;
    auto* batches = static_cast<StagedBatch*>(batches_.get());
    check(cudaStreamWaitEvent(compute_, from.uploaded.get(), 0), "waiting for a batch");
    check(cudaMemcpyAsync(batches, batches + 1 + current_, sizeof(StagedBatch), cudaMemcpyDeviceToDevice, compute_),
          "handing over a batch");
}

}  // namespace

std::unique_ptr<Feed> CudaBackend::feed(int rows, size_t image_bytes, int ahead) {
    const auto passed = [this](cudaEvent_t event) {
        const cudaError_t e = cudaEventQuery(event);
        if (e == cudaErrorNotReady && all_reduce_)
            all_reduce_->poll();  // the device may be waiting for a rank that is gone
        if (e != cudaErrorNotReady) check(e, "uploading a batch");
        return e == cudaSuccess;
    };
    auto* times = static_cast<kernels::StepTimes*>(times_.get());
    return std::make_unique<DeviceFeed>(*this, compute_.get(), &times->started, passed, FeedLayout(rows), image_bytes,
                                        ahead);
}

}  // namespace convoy::cuda
