// Threads that read pieces of a split while training runs.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace convoy {

class PieceLoader {
public:
    /// Reads a piece to `to`; may throw.
    using Read = std::function<void(int32_t piece, uint8_t* to)>;
    /// Starts `threads` threads. `reader` is called once for each, because a Read has buffers.
    PieceLoader(const std::function<Read()>& reader, int threads);
    ~PieceLoader();
    PieceLoader(const PieceLoader&) = delete;

    struct Job {
        int32_t piece;
        uint8_t* to;
    };
    /// Queues jobs for block `block`, behind the jobs that were added before.
    void add(int64_t block, const std::vector<Job>& jobs);
    /// Blocks until all jobs of a block are done. Throws what a thread threw.
    void wait(int64_t block);
    /// Drops jobs that have not begun, and waits for those that have.
    void cancel();

private:
    void work(const Read&);

    std::mutex mutex_;  // guards the next five
    std::condition_variable change_;
    std::deque<std::pair<int64_t, Job>> waiting_;  // (block, job)
    std::map<int64_t, size_t> open_;               // number of unfinished jobs, by block
    std::exception_ptr problem_;
    bool ended_ = false;
    std::vector<std::thread> threads_;  // last, because they use the others
};

}  // namespace convoy
