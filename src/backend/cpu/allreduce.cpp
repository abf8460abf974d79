// Gradient sums with MPI_Iallreduce. MPI only moves them on inside its own calls, so the step loop calls `progress` after
// every operation; what is left when the optimizer needs the gradients is the exposed communication.
#include "backend/cpu/gradient_sums.h"

namespace convoy {

void GradientSums::start(float* values, size_t count) {
    if (size_ == 1) return;
    requests_.emplace_back();
    MPI_Iallreduce(MPI_IN_PLACE, values, int(count), MPI_FLOAT, MPI_SUM, comm_, &requests_.back());
}

void GradientSums::progress() {
    if (requests_.empty()) return;
    int done = 0;
    MPI_Testall(int(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
    if (done) requests_.clear();
}

void GradientSums::wait() {
    const double start = now();
    MPI_Waitall(int(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
    waited_ += now() - start;
}

void GradientSums::sum_now(double* values, int count) {
    if (size_ == 1) return;
    const double start = now();
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, world_);
    waited_ += now() - start;
}

void CpuBackend::allreduce(Tensor bucket, Tape& tape) {
    tape.push_back({"all-reduce " + std::to_string(bucket.bytes() >> 10) + " KiB", Lane::communication,
                    [this, data = bucket.as<float>(), n = bucket.count()] { sums_->start(data, n); }});
}

void CpuBackend::wait_allreduce(Tape& tape) {
    tape.push_back({"wait for all-reduce", Lane::compute, [this] { sums_->wait(); }});
}

void CpuBackend::sum_now(double* values, int count) { sums_->sum_now(values, count); }

}  // namespace convoy
