// MPI: ranks, host collectives, and errors that all ranks agree on. Calls MPI_Init and
// MPI_Finalize.
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
    /// Starts MPI (thread level funneled). Call it once per process; split() makes further objects.
    Comm(int* argc, char*** argv);
    ~Comm();
    Comm(const Comm&) = delete;
    /// Collective. Returns the ranks that gave the same `group`, in their order, as another
    /// communicator. It shares activity() with this one, which must outlive it.
    std::unique_ptr<Comm> split(int group);

    int rank() const;
    int size() const;
    int local_rank() const;  ///< among the ranks of this node
    int local_size() const;
    const std::string& host() const;
    bool root() const { return rank() == 0; }
    Activity& activity() { return *activity_; }

    void barrier();
    /// Waits like barrier(), but leaves the cores to ranks that still work.
    void wait_for_all();
    void broadcast(void* data, size_t bytes, int from = 0);
    std::string broadcast(const std::string&, int from = 0);
    int64_t sum(int64_t);
    int64_t max(int64_t);
    /// Replaces each value by its mean over ranks. Values that are equal on all ranks keep their
    /// bits.
    void average(std::vector<float>& values);
    /// Returns the values of all ranks on rank 0, in order of rank; empty on other ranks.
    std::vector<float> gather(const std::vector<float>& mine);
    /// Returns the rows of all ranks, in order of rank, on every rank.
    std::vector<double> gather_all(const std::vector<double>& row);
    std::vector<std::string> gather_all(const std::string&);
    /// Like gather_all(), for the ranks of this node.
    std::vector<std::string> gather_node(const std::string&);

    /// Runs `work` on all ranks and agrees on the outcome. If ranks throw an Error or run out of
    /// memory, every rank throws the error of the lowest of them, marked `everywhere`. `work`
    /// itself must not communicate. Collective.
    void together(const std::function<void()>& work);

    /// Runs `work`. An error that is not marked `everywhere` aborts the job at once, before objects
    /// outside `work` are destroyed.
    void or_abort(const std::function<void()>& work);

    /// Returns the number of threads for this rank: its fair share of the cores that its launcher
    /// lets it use. Each core is divided by the number of local ranks bound to it. The result does
    /// not exceed the rank's share of a control group's quota, rounded up. `why`, if given, is set
    /// to the quota that limits it, or to "".
    int fair_threads(std::string* why = nullptr);

    /// Prints "convoy: rank R on HOST: message" and ends every rank with `code`. Does not return.
    [[noreturn]] void abort(Exit code, const std::string& message);

    /// The MPI handles, for backends that include mpi.h (comm/native.h).
    struct Native;
    Native& native() { return *native_; }

private:
    Comm();

    std::unique_ptr<Native> native_;
    std::shared_ptr<Activity> activity_;
    bool starts_mpi_ = false;  // true: the constructor started MPI, and the destructor ends it
};

/// Returns the name and version of the MPI library: "Open MPI v4.1.4". Needs no Comm.
std::string mpi_version();

}  // namespace convoy
