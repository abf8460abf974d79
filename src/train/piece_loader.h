// Threads that read pieces of a split while a training goes on.
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
    /// Reads a piece to where it is wanted; may throw.
    using Read = std::function<void(int32_t piece, uint8_t* to)>;
    /// `reader` makes what one thread reads with.
    PieceLoader(const std::function<Read()>& reader, int threads);
    ~PieceLoader();
    PieceLoader(const PieceLoader&) = delete;

    struct Job {
        int32_t piece;
        uint8_t* to;
    };
    /// Reads them for block `block`, after what was added before.
    void add(int64_t block, const std::vector<Job>& jobs);
    /// Until all that was added for a block is read. Throws what a thread threw.
    void wait(int64_t block);
    /// Forgets jobs that have not begun, and waits for those that have.
    void cancel();

private:
    void work(const Read&);

    std::mutex mutex_;  // guards the next five
    std::condition_variable change_;
    std::deque<std::pair<int64_t, Job>> waiting_;  // with their blocks
    std::map<int64_t, size_t> open_;               // jobs that are not done, by block
    std::exception_ptr problem_;
    bool ended_ = false;
    std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace convoy
