// The all-reduces that one CPU rank has in flight.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "comm/native.h"

namespace convoy::cpu {

class GradientAllReduce {
public:
    explicit GradientAllReduce(Comm& comm)
        : comm_(comm.native().gradients), world_(comm.native().world), size_(comm.size()) {}
    /// Starts values[i] = sum over ranks of values[i]. Do not touch `values` until wait() returns.
    void start(float* values, size_t count);
    /// Starts an all-reduce (sum) of `from` into `to`. Leave both alone until wait() returns.
    void start_into(const float* from, float* to, size_t count);
    void progress();
    void wait();

    // Several lanes add to a bucket of integers before its all-reduce:
    /// Registers a bucket that `lanes` lanes add to. Returns the same index if it is already
    /// registered.
    size_t bucket(int64_t* values, size_t count, int lanes);
    /// Reports that a lane has finished adding to a bucket. May be called from any thread. The
    /// thread that calls MPI then starts the all-reduces, in the order in which buckets were
    /// registered.
    void arrive(size_t bucket);
    /// Replaces values[i] by its maximum over ranks, before it returns.
    void max_now(int32_t* values, int count);

    /// Records when each all-reduce was in flight, and the time spent in progress(); null: stops
    /// recording. Not to be called between start() and wait().
    void trace(std::vector<Span>* to) { trace_ = to; }
    /// Sums doubles over all ranks before it returns; synchronised batch norm needs this.
    void sum_now(double* values, int count);
    /// Returns the seconds that compute waited for communication since the last call.
    double take_waited() { return std::exchange(waited_, 0.0); }

private:
    struct Bucket {
        int64_t* values;
        size_t count;
        int lanes;
        std::atomic<int> arrived{0};
    };
    void start(const void* from, void* to, size_t count, size_t element, MPI_Datatype);
    void start_arrived();
    /// Records that the first `count` requests in ended_ are complete.
    void settle(int count);

    MPI_Comm comm_, world_;
    int size_;
    std::vector<MPI_Request> requests_;  // those started since the last time none was in flight; null: ended
    std::vector<int> ended_;             // scratch of MPI_Testsome, as large as requests_
    int in_flight_ = 0;
    double waited_ = 0;
    std::vector<Span>* trace_ = nullptr;
    std::deque<Bucket> buckets_;
    size_t next_bucket_ = 0;     // the first bucket whose all-reduce is not started in this step
    std::vector<size_t> spans_;  // per request: its index in *trace_
};

}  // namespace convoy::cpu
