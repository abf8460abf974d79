#include "comm/shared_block.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "comm/native.h"
#include "comm/node_memory.h"

namespace convoy {
namespace {

/// Returns true if /dev/shm, where OpenMPI keeps its windows, has room for `bytes`. Writing to a
/// window beyond that room is a bus error.
bool shared_memory_has(size_t bytes) {
    struct statvfs fs;
    return statvfs("/dev/shm", &fs) == 0 && size_t(fs.f_bavail) * fs.f_frsize > bytes + bytes / 8;
}

}  // namespace

int Groups::place_of(int of_rank) const {
    const std::vector<int>& all = members[of[of_rank]];
    return int(std::find(all.begin(), all.end(), of_rank) - all.begin());
}

std::vector<int> Groups::seats() const {
    std::vector<int> all;
    for (const std::vector<int>& group : members) all.insert(all.end(), group.begin(), group.end());
    return all;
}

bool SharedBlock::may_share(Comm& comm, size_t bytes) {
    return comm.max(int64_t(!shared_memory_has(bytes))) == 0 && comm.max(int64_t(comm.local_size())) > 1;
}

Groups SharedBlock::groups(Comm& comm, bool shared) {
    int first = comm.rank();
    if (shared) MPI_Bcast(&first, 1, MPI_INT, 0, comm.native().node);
    Groups groups;
    groups.rank = comm.rank();
    std::map<int, int> known;  // by the node's first rank
    const std::vector<double> all = comm.gather_all(std::vector<double>{double(first)});
    for (size_t rank = 0; rank < all.size(); ++rank) {
        const auto [group, is_new] = known.emplace(int(all[rank]), groups.count());
        if (is_new) groups.members.emplace_back();
        groups.of.push_back(group->second);
        groups.members[group->second].push_back(int(rank));
    }
    return groups;
}

void SharedBlock::check(Comm& comm, bool shared, size_t bytes, const std::string& what, const std::string& advice) {
    const MemoryBudget budget = memory_budget(comm);
    comm.together([&] {
        if (bytes > (shared ? budget.left_to_share() : budget.left()))
            fail(Exit::out_of_memory,
                 budget.shortage(bytes, shared ? MemoryOwner::node : MemoryOwner::each_rank, what, advice));
    });
}

SharedBlock::SharedBlock(Comm& comm, bool shared, size_t bytes, const std::string& what, const std::string& advice)
    : comm_(comm), shared_(shared), exceptions_(std::uncaught_exceptions()) {
    check(comm, shared, bytes, what, advice);
    comm.together([&] {
        if (!shared) own_ = std::malloc(std::max<size_t>(bytes, 1));
        if (!shared && !own_)
            fail(Exit::out_of_memory,
                 "out of memory: cannot allocate " + std::to_string(bytes >> 20) + " MiB for " + what);
    });
    data_ = static_cast<char*>(own_);
    if (!shared) return;
    auto* window = new MPI_Win(MPI_WIN_NULL);
    window_ = window;
    void* mine = nullptr;
    MPI_Win_allocate_shared(comm.local_rank() == 0 ? MPI_Aint(bytes) : 0, 1, MPI_INFO_NULL, comm.native().node, &mine,
                            window);
    MPI_Aint size = 0;
    int unit = 0;
    MPI_Win_shared_query(*window, 0, &size, &unit, &mine);
    data_ = static_cast<char*>(mine);
    take_pages(bytes);
}

// Writes to every page, each rank to its share. Linux allocates a page when it is first written;
// until then the check for the next block would count the page as free.
void SharedBlock::take_pages(size_t bytes) {
    constexpr size_t page = 4096;
    const size_t ranks = size_t(comm_.local_size()), rank = size_t(comm_.local_rank());
    for (size_t at = bytes / ranks * rank / page * page; at < bytes / ranks * (rank + 1); at += page) data_[at] = 0;
    if (rank + 1 == ranks && bytes > 0) data_[bytes - 1] = 0;
    barrier();
}

// If an exception of this rank alone destroys the block, freeing the window would wait for other
// ranks forever. So the window stays until the process ends.
SharedBlock::~SharedBlock() {
    const std::unique_ptr<MPI_Win> window(static_cast<MPI_Win*>(window_));
    if (window && std::uncaught_exceptions() <= exceptions_) MPI_Win_free(window.get());
    std::free(own_);
}

void SharedBlock::barrier() {
    if (shared_) MPI_Barrier(comm_.native().node);
}

}  // namespace convoy
