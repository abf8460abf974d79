// All-reduces by NCCL with a non-blocking communicator. Every call has a deadline, and a failed
// communicator is aborted. So a rank that dies ends the job instead of hanging it.
#include <nccl.h>

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "backend/cuda/gradient_all_reduce.h"
#include "backend/cuda/handles.h"
#include "backend/cuda/transport.h"
#include "backend/nccl_log.h"
#include "base/clock.h"
#include "comm/comm.h"
#include "kernels/kernels.h"

namespace convoy::cuda {
namespace {

constexpr auto connect_deadline = std::chrono::seconds(120);  // enough for 32 ranks on a cold file system
// long, because the first call connects, and peers may still be writing a checkpoint
constexpr auto call_deadline = std::chrono::seconds(120);
constexpr auto abort_deadline = std::chrono::seconds(2);

/// Aborts a communicator in another thread, and waits a limited time. ncclCommAbort() waits until
/// all graphs that use the communicator are destroyed, and some outlive this call. All-reduces in
/// flight end nevertheless.
void abandon(ncclComm_t nccl) {
    const auto ended = std::make_shared<std::promise<void>>();
    std::thread([=] {
        ncclCommAbort(nccl);
        ended->set_value();
    }).detach();
    ended->get_future().wait_for(abort_deadline);
}

class NcclAllReduce final : public GradientAllReduce {
public:
    NcclAllReduce(Comm& comm, cudaStream_t compute, cudaStream_t communication, bool in_bf16, TensorMemory& memory)
        : comm_(comm), compute_(compute), communication_(communication), in_bf16_(in_bf16), memory_(memory) {
        ncclUniqueId id{};
        comm.together([&] {
            if (comm.root()) succeed(ncclGetUniqueId(&id), "making NCCL's id");
        });
        comm.broadcast(&id, sizeof id);
        comm.together([&] {
            ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
            config.blocking = 0;
            settle(ncclCommInitRankConfig(&nccl_, comm.size(), id, comm.rank(), &config), "connecting the ranks",
                   connect_deadline);
            first_all_reduces();
            transports_ = transports_of(nccl_log());
        });
    }
    ~NcclAllReduce() override {
        // ncclCommDestroy() waits for peers, which may be gone if an exception ends the job.
        if (!nccl_) return;
        if (std::uncaught_exceptions() > exceptions_)
            abandon(nccl_);
        else
            ncclCommDestroy(nccl_);
    }

    void start(float* values, size_t count, size_t exact) override {
        follow(communication_, compute_, produced_);
        if (!in_bf16_) exact = count;
        Tensor* low = exact < count ? &low_copy(values + exact, count - exact) : nullptr;
        const int64_t rows = low ? low->shape.n : 0;
        if (low) kernels::pad(values + exact, rows, low->shape.c, *low, communication_);
        ncclGroupStart();
        if (exact > 0) ncclAllReduce(values, values, exact, ncclFloat, ncclSum, nccl_, communication_);
        if (low) ncclAllReduce(low->data, low->data, low->count(), ncclBfloat16, ncclSum, nccl_, communication_);
        settle(ncclGroupEnd(), "summing gradients", call_deadline);
        if (low) kernels::crop(*low, rows, low->shape.c, values + exact, communication_);
    }
    void start_into(const float* from, float* to, size_t count) override { start(from, to, count, ncclFloat, ncclSum); }
    void start(int64_t* values, size_t count) override { start(values, values, count, ncclInt64, ncclSum); }
    void start_largest(int32_t* values, size_t count) override { start(values, values, count, ncclInt32, ncclMax); }
    void wait() override { follow(compute_, communication_, summed_); }
    void sum_now(double* values, int count) override {
        settle(ncclAllReduce(values, values, size_t(count), ncclDouble, ncclSum, nccl_, compute_),
               "summing batch statistics", call_deadline);
    }
    bool capturable() const override { return true; }
    std::set<std::string> transports() const override { return transports_; }

    Buffer allocate(size_t bytes) override {  // NCCL can register this memory, even from a captured graph
        void* p = nullptr;
        if (ncclMemAlloc(&p, bytes) != ncclSuccess) return nullptr;
        return Buffer(p, [](void* q) { ncclMemFree(q); });
    }

    void poll() override {
        if (!nccl_) fail(Exit::comm, "NCCL was aborted on rank " + std::to_string(comm_.rank()));
        ncclResult_t state = ncclSuccess;
        ncclCommGetAsyncError(nccl_, &state);
        if (state != ncclSuccess && state != ncclInProgress) give_up(state, "an all-reduce");
    }

private:
    void start(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op) {
        follow(communication_, compute_, produced_);
        settle(ncclAllReduce(from, to, count, type, op, nccl_, communication_), "summing gradients", call_deadline);
    }
    void succeed(ncclResult_t result, const char* what) {
        if (result != ncclSuccess) give_up(result, what);
    }
    /// Waits until the communicator has accepted a call.
    void settle(ncclResult_t result, const char* what, Clock::duration deadline) {
        const Clock::time_point end = Clock::now() + deadline;
        while (result == ncclInProgress) {
            if (Clock::now() > end) give_up(ncclInProgress, what);
            std::this_thread::sleep_for(std::chrono::microseconds(20));
            ncclCommGetAsyncError(nccl_, &result);
        }
        succeed(result, what);
    }
    [[noreturn]] void give_up(ncclResult_t result, const char* what) {
        const std::string reason = result == ncclInProgress ? "no answer in time; is a rank stopped, or a link down?"
                                                            : std::string("NCCL says: ") + ncclGetErrorString(result);
        const char* last = nccl_ ? ncclGetLastError(nccl_) : "";
        std::string message = std::string(what) + " failed on rank " + std::to_string(comm_.rank()) + " on " +
                              comm_.host() + ": " + reason;
        if (last && *last) message += std::string(" (") + last + ")";
        const bool memory = message.find("out of memory") != std::string::npos;
        if (nccl_) abandon(std::exchange(nccl_, nullptr));
        if (memory) fail(Exit::out_of_memory, message + "; use a smaller batch");
        fail(Exit::comm, message + "; NCCL_DEBUG=INFO tells more");
    }

    /// Runs a short and a long all-reduce, because ranks connect on first use, for each algorithm
    /// separately. So a broken link shows now, and NCCL logs the transports.
    void first_all_reduces() {
        constexpr size_t longest = size_t(4) << 20;  // elements
        const Buffer values = memory_.allocate(longest * sizeof(float));
        for (const size_t count : {size_t(1), longest}) start(static_cast<float*>(values.get()), count, count);
        const Clock::time_point end = Clock::now() + connect_deadline;
        while (cudaStreamQuery(communication_) == cudaErrorNotReady) {
            if (Clock::now() > end) give_up(ncclInProgress, "the first all-reduces");
            poll();
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        check(cudaStreamSynchronize(communication_), "the first all-reduces");
    }

    Tensor& low_copy(float* values, size_t count) {
        for (auto& [at, buffer, tensor] : low_)
            if (at == values) return tensor;
        const Buffer buffer = memory_.allocate_reduced(count * 2);
        low_.push_back(
            {values, buffer, {buffer.get(), {int(count / stats_elements), 1, 1, int(stats_elements)}, DType::bf16}});
        return low_.back().tensor;
    }

    Comm& comm_;
    cudaStream_t compute_, communication_;
    const bool in_bf16_;
    TensorMemory& memory_;
    ncclComm_t nccl_ = nullptr;
    Event produced_, summed_;
    const int exceptions_ = std::uncaught_exceptions();
    struct Low {
        float* values;
        Buffer buffer;
        Tensor tensor;
    };
    std::vector<Low> low_;
    std::set<std::string> transports_;
};

}  // namespace

std::unique_ptr<GradientAllReduce> connect_by_nccl(Comm& comm, cudaStream_t compute, cudaStream_t communication,
                                                   bool in_bf16, TensorMemory& memory) {
    return std::make_unique<NcclAllReduce>(comm, compute, communication, in_bf16, memory);
}

}  // namespace convoy::cuda
