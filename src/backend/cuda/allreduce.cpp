// Gradient sums on the tape: started on the communication lane after the bucket's last gradient,
// waited for before the optimizer.
#include "backend/cuda/cuda_backend.h"

namespace convoy::cuda {

void CudaBackend::allreduce(Tensor bucket, Tape& tape) {
    if (!sums_) return;
    tape.push_back({named_step(StepPhase::all_reduce, "all-reduce " + std::to_string(bucket.bytes() >> 10) + " KiB"),
                    Lane::communication,
                    [this, data = bucket.as<float>(), n = bucket.count()] { sums_->start(data, n); }});
}

void CudaBackend::wait_allreduce(Tape& tape) {
    if (!sums_) return;
    auto* times = static_cast<kernels::StepTimes*>(times_.get());
    step(tape, named_step(StepPhase::all_reduce, "wait for all-reduce"), [=, this](cudaStream_t s) {
        kernels::mark(&times->wait_began, s);
        sums_->wait();
        kernels::mark(&times->wait_ended, s);
    });
}

}  // namespace convoy::cuda
