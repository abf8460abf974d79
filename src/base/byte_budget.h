// A limit on the memory that the threads of a process take. A thread waits until there is room for
// its part.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace convoy {

/// Limits the sum of the bytes of all threads' parts. A part larger than the whole budget waits
/// until no other part has any bytes.
class ByteBudget {
public:
    explicit ByteBudget(size_t most) : most_(most) {}

    /// The bytes of one thread, which the destructor gives back. Threads that have parts of several
    /// budgets must take them in the same order to avoid a deadlock.
    class Part {
    public:
        explicit Part(ByteBudget& budget) : budget_(budget) {}
        ~Part() { give_back(); }
        Part(const Part&) = delete;
        Part& operator=(const Part&) = delete;

        /// Blocks until the part has `bytes` bytes instead of those that it had.
        void take(size_t bytes) {
            give_back();
            std::unique_lock lock(budget_.mutex_);
            budget_.wake_.wait(lock, [&] { return budget_.taken_ == 0 || bytes <= budget_.left(); });
            budget_.taken_ += bytes;
            bytes_ = bytes;
        }

    private:
        void give_back() {
            {
                const std::lock_guard lock(budget_.mutex_);
                budget_.taken_ -= bytes_;
                bytes_ = 0;
            }
            budget_.wake_.notify_all();
        }

        ByteBudget& budget_;
        size_t bytes_ = 0;
    };

private:
    size_t left() const { return taken_ < most_ ? most_ - taken_ : 0; }

    const size_t most_;
    size_t taken_ = 0;
    std::mutex mutex_;  // guards taken_
    std::condition_variable wake_;
};

}  // namespace convoy
