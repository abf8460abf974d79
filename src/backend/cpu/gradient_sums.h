// The all-reduces in flight of one CPU rank.
#pragma once
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "comm/native.h"

namespace convoy {

class GradientSums {
public:
    explicit GradientSums(Comm& comm) : comm_(comm.native().gradients), size_(comm.size()) {}
    /// Begins values[i] = sum over ranks of values[i]; `values` is untouchable until wait().
    void start(float* values, size_t count);
    void progress();
    void wait();
    double waited() const { return waited_; }  ///< seconds the last wait() took

private:
    MPI_Comm comm_;
    int size_;
    std::vector<MPI_Request> requests_;
    double waited_ = 0;
};

}  // namespace convoy
