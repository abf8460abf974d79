// The all-reduces in flight of one CPU rank.
#pragma once
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "comm/native.h"

namespace convoy {

class GradientSums {
public:
    explicit GradientSums(Comm& comm) : comm_(comm.native().gradients), world_(comm.native().world), size_(comm.size()) {}
    /// Begins values[i] = sum over ranks of values[i]; `values` is untouchable until wait().
    void start(float* values, size_t count);
    void progress();
    void wait();
    /// Sums doubles over all ranks, now: what synchronised batch norm needs.
    void sum_now(double* values, int count);
    /// Seconds that computation stood still for communication since the last call.
    double take_waited() { return std::exchange(waited_, 0.0); }

private:
    MPI_Comm comm_, world_;
    int size_;
    std::vector<MPI_Request> requests_;
    double waited_ = 0;
};

}  // namespace convoy
