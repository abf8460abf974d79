#include "comm/replicated.h"

#include <algorithm>

#include "comm/native.h"

namespace convoy {
namespace {

constexpr const char *what = "the data set",
                     *advice = "use --data-placement stream, a smaller data set or fewer ranks per node";

}  // namespace

void Replicated::check(Comm& comm, size_t bytes) {
    SharedBlock::check(comm, SharedBlock::may_share(comm, bytes), bytes, what, advice);
}

Replicated::Replicated(Comm& comm, size_t bytes)
    : comm_(comm), block_(comm, SharedBlock::may_share(comm, bytes), bytes, what, advice) {}

void Replicated::complete(const std::vector<size_t>& offsets) {
    const Doing doing(comm_.activity(), "exchange of the data set");
    const Comm::Native& n = comm_.native();
    const MPI_Comm group = block_.shared() ? n.leaders : n.world;  // one member per copy

    int holder = n.rank;  // the rank in `group` that holds this rank's copy
    if (block_.shared()) {
        if (group != MPI_COMM_NULL) MPI_Comm_rank(group, &holder);
        MPI_Bcast(&holder, 1, MPI_INT, 0, n.node);
    }
    std::vector<int> holder_of(n.size);
    MPI_Allgather(&holder, 1, MPI_INT, holder_of.data(), 1, MPI_INT, n.world);
    MPI_Barrier(n.world);  // every part is written
    if (group != MPI_COMM_NULL && *std::max_element(holder_of.begin(), holder_of.end()) > 0)
        for (int r = 0; r < n.size; ++r)
            broadcast_bytes(block_.data() + offsets[r], offsets[r + 1] - offsets[r], holder_of[r], group);
    MPI_Barrier(n.world);
}

}  // namespace convoy
