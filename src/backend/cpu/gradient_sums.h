// The all-reduces in flight of one CPU rank.
#pragma once
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
    /// Writes down from when to when each sum was in flight, and the time that progress() took;
    /// null: no longer. Not between start() and wait().
    void trace(std::vector<Span>* to) { trace_ = to; }
    /// Sums doubles over all ranks, now: what synchronised batch norm needs.
    void sum_now(double* values, int count);
    /// Seconds that computation stood still for communication since the last call.
    double take_waited() { return std::exchange(waited_, 0.0); }

private:
    /// Takes note of the first `count` requests in ended_.
    void settle(int count);

    MPI_Comm comm_, world_;
    int size_;
    std::vector<MPI_Request> requests_;  // since all before had ended
    std::vector<int> ended_;             // room for as many
    int in_flight_ = 0;
    double waited_ = 0;
    std::vector<Span>* trace_ = nullptr;
    std::vector<size_t> spans_;  // of the requests, in *trace_
};

}  // namespace convoy::cpu
