// The all-reduces in flight of one CPU rank.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "comm/native.h"

namespace convoy::cpu {

class GradientSums {
public:
    explicit GradientSums(Comm& comm)
        : comm_(comm.native().gradients), world_(comm.native().world), size_(comm.size()) {}
    /// Begins values[i] = sum over ranks of values[i]; `values` is untouchable until wait().
    void start(float* values, size_t count);
    void progress();
    void wait();

    // Integers that lanes add to, before they are summed over ranks:
    /// Registers a bucket that so many lanes add to; the same one if it was registered before.
    size_t bucket(int64_t* values, size_t count, int lanes);
    /// A lane will not add to it any more. From any thread; the one that calls MPI begins the sums,
    /// in the order in which buckets were registered.
    void arrive(size_t bucket);
    /// values[i] = its maximum over ranks, now.
    void max_now(int32_t* values, int count);

    /// Writes down from when to when each sum was in flight, and the time that progress() took;
    /// null: no longer. Not between start() and wait().
    void trace(std::vector<Span>* to) { trace_ = to; }
    /// Sums doubles over all ranks, now: what synchronised batch norm needs.
    void sum_now(double* values, int count);
    /// Seconds that computation stood still for communication since the last call.
    double take_waited() { return std::exchange(waited_, 0.0); }

private:
    struct Bucket {
        int64_t* values;
        size_t count;
        int lanes;
        std::atomic<int> arrived{0};
    };
    void start(void* values, size_t count, size_t element, MPI_Datatype);
    void start_arrived();
    /// Takes note of the first `count` requests in ended_.
    void settle(int count);

    MPI_Comm comm_, world_;
    int size_;
    std::vector<MPI_Request> requests_;  // since all before had ended
    std::vector<int> ended_;             // room for as many
    int in_flight_ = 0;
    double waited_ = 0;
    std::vector<Span>* trace_ = nullptr;
    std::deque<Bucket> buckets_;
    size_t next_bucket_ = 0;     // that is not started in this step
    std::vector<size_t> spans_;  // of the requests, in *trace_
};

}  // namespace convoy::cpu
