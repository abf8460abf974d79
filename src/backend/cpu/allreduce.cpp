// Gradient all-reduces with MPI_Iallreduce. MPI advances them only inside its own calls, so the
// loop over the tape calls progress() after every launch. The time still needed when the optimizer
// waits is the exposed communication.
#include <algorithm>

#include "backend/cpu/gradient_all_reduce.h"

namespace convoy::cpu {
namespace {

LaunchId all_reduce(size_t bytes) {
    return named_launch(LaunchPhase::all_reduce, "all-reduce " + std::to_string(bytes >> 10) + " KiB");
}

}  // namespace

void GradientAllReduce::start(float* values, size_t count) {
    start(MPI_IN_PLACE, values, count, sizeof(float), MPI_FLOAT);
}

void GradientAllReduce::start_into(const float* from, float* to, size_t count) {
    if (size_ == 1) std::copy(from, from + count, to);
    start(from, to, count, sizeof(float), MPI_FLOAT);
}

void GradientAllReduce::start(const void* from, void* to, size_t count, size_t element, MPI_Datatype type) {
    if (size_ == 1) return;
    requests_.emplace_back();
    ended_.emplace_back();
    ++in_flight_;
    if (trace_) {
        spans_.push_back(trace_->size());
        trace_->push_back({all_reduce(count * element), Resource::communication, now(), 0});
    }
    MPI_Iallreduce(from, to, int(count), type, MPI_SUM, comm_, &requests_.back());
}

size_t GradientAllReduce::bucket(int64_t* values, size_t count, int lanes) {
    for (size_t i = 0; i < buckets_.size(); ++i)
        if (buckets_[i].values == values) return i;
    buckets_.emplace_back(values, count, lanes);
    return buckets_.size() - 1;
}

void GradientAllReduce::arrive(size_t bucket) { buckets_[bucket].arrived.fetch_add(1, std::memory_order_release); }

void GradientAllReduce::start_arrived() {
    for (; next_bucket_ < buckets_.size(); ++next_bucket_) {
        Bucket& b = buckets_[next_bucket_];
        if (b.arrived.load(std::memory_order_acquire) < b.lanes) return;
        start(MPI_IN_PLACE, b.values, b.count, sizeof(int64_t), MPI_INT64_T);
    }
}

void GradientAllReduce::max_now(int32_t* values, int count) {
    if (size_ == 1) return;
    const double start = now();
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_INT32_T, MPI_MAX, comm_);
    waited_ += now() - start;
}

void GradientAllReduce::progress() {
    start_arrived();
    if (in_flight_ == 0) return;
    const double begin = trace_ ? now() : 0;
    int count = 0;
    MPI_Testsome(int(requests_.size()), requests_.data(), &count, ended_.data(), MPI_STATUSES_IGNORE);
    settle(count);
    if (trace_)
        trace_->push_back(
            {named_launch(LaunchPhase::progress, "all-reduce progress"), Resource::compute, begin, now()});
}

void GradientAllReduce::wait() {
    const double start = now();
    start_arrived();
    next_bucket_ = 0;
    for (Bucket& b : buckets_) b.arrived = 0;
    while (in_flight_ > 0) {
        int count = 0;
        MPI_Waitsome(int(requests_.size()), requests_.data(), &count, ended_.data(), MPI_STATUSES_IGNORE);
        settle(count);
    }
    waited_ += now() - start;
}

void GradientAllReduce::settle(int count) {
    for (int i = 0; trace_ && i < count; ++i) (*trace_)[spans_[ended_[i]]].end = now();
    in_flight_ -= count;
    if (in_flight_ == 0) requests_.clear(), ended_.clear(), spans_.clear();
}

void GradientAllReduce::sum_now(double* values, int count) {
    if (size_ == 1) return;
    const double start = now();
    MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, world_);
    waited_ += now() - start;
}

void CpuBackend::allreduce(Tensor bucket, size_t /*counts*/, Tape& tape) {
    tape.push_back({all_reduce(bucket.bytes()), Resource::communication,
                    [this, data = bucket.as<float>(), n = bucket.count()] { all_reduce_->start(data, n); }});
}

void CpuBackend::allreduce_into(Tensor from, Tensor to, Tape& tape) {
    tape.push_back({all_reduce(to.bytes()), Resource::communication,
                    [this, from = from.as<float>(), data = to.as<float>(), n = to.count()] {
                        all_reduce_->start_into(from, data, n);
                    }});
}

void CpuBackend::wait_allreduce(Tape& tape) {
    tape.push_back({named_launch(LaunchPhase::all_reduce, "wait for all-reduce"), Resource::compute,
                    [this] { all_reduce_->wait(); }});
}

void CpuBackend::sum_now(double* values, int count) { all_reduce_->sum_now(values, count); }

}  // namespace convoy::cpu
