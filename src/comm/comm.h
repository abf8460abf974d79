// MPI: ranks, host collectives, and failing as one. Owns MPI_Init and MPI_Finalize.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/activity.h"

namespace convoy {

class Comm {
public:
    /// Starts MPI (thread level funneled). One a process.
    Comm(int* argc, char*** argv);
    ~Comm();
    Comm(const Comm&) = delete;

    int rank() const;
    int size() const;
    int local_rank() const;  ///< among the ranks of this node
    int local_size() const;
    const std::string& host() const;
    bool root() const { return rank() == 0; }
    Activity& activity() { return activity_; }

    void barrier();
    void broadcast(void* data, size_t bytes, int from = 0);
    std::string broadcast(const std::string&, int from = 0);
    double sum(double);
    int64_t sum(int64_t);
    int64_t max(int64_t);
    /// Replaces each value by its mean over ranks; values that are equal on all ranks stay what
    /// they are.
    void average(std::vector<float>& values);
    /// Every rank's values, in order of rank, on rank 0; nothing elsewhere.
    std::vector<float> gather(const std::vector<float>& mine);
    /// One row a rank, in rank order, on every rank.
    std::vector<double> gather_all(const std::vector<double>& row);
    std::vector<std::string> gather_all(const std::string&);
    /// As gather_all, of the ranks of this node.
    std::vector<std::string> gather_node(const std::string&);

    /// Collective: runs `work`, and agrees on the outcome. If any rank throws Error, every rank
    /// throws the error of the lowest such rank, marked `everywhere`. `work` itself must not
    /// communicate.
    void together(const std::function<void()>& work);

    /// Runs `work`, while what it uses is still whole: a failure that the other ranks do not know
    /// of ends them at once.
    void or_abort(const std::function<void()>& work);

    /// This rank's fair share of the cores its launcher lets it use: each core is divided by the
    /// local ranks bound to it. No more than its share of a control group's quota. `why`, if given,
    /// is set to the quota that limits it, or to "".
    int fair_threads(std::string* why = nullptr);

    /// Prints "convoy: rank R on HOST: message" and ends every rank with `code`. Does not return.
    [[noreturn]] void abort(Exit code, const std::string& message);

    /// For backends, which include mpi.h: comm/native.h.
    struct Native;
    Native& native() { return *native_; }

private:
    std::unique_ptr<Native> native_;
    Activity activity_;
};

/// Of the MPI library: "Open MPI v4.1.4". Needs no Comm.
std::string mpi_version();

}  // namespace convoy
