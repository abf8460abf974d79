#include "comm/replicated.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>

#include "comm/native.h"
#include "comm/node_memory.h"

namespace convoy {

struct Replicated::State {
    Comm& comm;
    MPI_Win window = MPI_WIN_NULL;  // of the node; null if every rank has a copy of its own
    void* own = nullptr;
    char* data = nullptr;
    int exceptions = std::uncaught_exceptions();
};

namespace {

/// Room in the shared-memory file system that OpenMPI backs its windows with; writing beyond it
/// would be a bus error.
bool shared_memory_has(size_t bytes) {
    struct statvfs fs;
    return statvfs("/dev/shm", &fs) == 0 && size_t(fs.f_bavail) * fs.f_frsize > bytes + bytes / 8;
}

}  // namespace

bool Replicated::check(Comm& comm, size_t bytes) {
    const bool share = comm.max(int64_t(!shared_memory_has(bytes))) == 0 && comm.max(int64_t(comm.local_size())) > 1;
    const MemoryBudget budget = memory_budget(comm);
    comm.together([&] {
        if (bytes > (share ? budget.left_to_share() : budget.left()))
            fail(Exit::out_of_memory, budget.shortage(bytes, share ? Taker::node : Taker::each_rank, "the data set",
                                                      "use a smaller data set or fewer ranks a node"));
    });
    return share;
}

Replicated::Replicated(Comm& comm, size_t bytes) : state_(new State{comm}) {
    State& s = *state_;
    const bool share = check(comm, bytes);
    comm.together([&] {
        if (!share) s.own = std::malloc(std::max<size_t>(bytes, 1));
        if (!share && !s.own)
            fail(Exit::out_of_memory,
                 "out of memory: cannot allocate " + std::to_string(bytes >> 20) + " MiB for the data set");
    });
    s.data = static_cast<char*>(s.own);
    if (!share) return;
    MPI_Comm node = comm.native().node;
    void* mine = nullptr;
    MPI_Win_allocate_shared(comm.local_rank() == 0 ? MPI_Aint(bytes) : 0, 1, MPI_INFO_NULL, node, &mine, &s.window);
    MPI_Aint size = 0;
    int unit = 0;
    MPI_Win_shared_query(s.window, 0, &size, &unit, &mine);
    s.data = static_cast<char*>(mine);
}

// An exception may be this rank's alone. Freeing the window would then wait for ranks that do not
// know, and the job would hang. The process ends soon, and the window with it.
Replicated::~Replicated() {
    const bool unwinding = std::uncaught_exceptions() > state_->exceptions;
    if (state_->window != MPI_WIN_NULL && !unwinding) MPI_Win_free(&state_->window);
    std::free(state_->own);
}

char* Replicated::data() const { return state_->data; }

void Replicated::complete(const std::vector<size_t>& offsets) {
    State& s = *state_;
    const Doing doing(s.comm.activity(), "exchange of the data set");
    const Comm::Native& n = s.comm.native();
    const bool shared = s.window != MPI_WIN_NULL;
    const MPI_Comm group = shared ? n.leaders : n.world;  // one member for every copy

    int holder = n.rank;  // this rank's copy, as a rank of `group`
    if (shared) {
        if (group != MPI_COMM_NULL) MPI_Comm_rank(group, &holder);
        MPI_Bcast(&holder, 1, MPI_INT, 0, n.node);
    }
    std::vector<int> holder_of(n.size);
    MPI_Allgather(&holder, 1, MPI_INT, holder_of.data(), 1, MPI_INT, n.world);
    MPI_Barrier(n.world);  // every part is written
    if (group != MPI_COMM_NULL && *std::max_element(holder_of.begin(), holder_of.end()) > 0)
        for (int r = 0; r < n.size; ++r)
            broadcast_bytes(s.data + offsets[r], offsets[r + 1] - offsets[r], holder_of[r], group);
    MPI_Barrier(n.world);
}

}  // namespace convoy
