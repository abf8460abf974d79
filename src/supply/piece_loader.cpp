#include "supply/piece_loader.h"

namespace convoy {

PieceLoader::PieceLoader(const std::function<Read()>& reader, int threads) {
    for (int t = 0; t < threads; ++t) threads_.emplace_back([this, read = reader()] { work(read); });
}

PieceLoader::~PieceLoader() {
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
        waiting_.clear();
    }
    change_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void PieceLoader::add(int64_t block, const std::vector<Job>& jobs) {
    {
        const std::lock_guard lock(mutex_);
        open_[block] += jobs.size();
        for (const Job& job : jobs) waiting_.emplace_back(block, job);
    }
    change_.notify_all();
}

void PieceLoader::wait(int64_t block) {
    std::unique_lock lock(mutex_);
    change_.wait(lock, [&] { return problem_ || open_[block] == 0; });
    if (problem_) std::rethrow_exception(problem_);
    open_.erase(block);
}

void PieceLoader::cancel() {
    std::unique_lock lock(mutex_);
    for (const auto& [block, job] : waiting_) --open_[block];
    waiting_.clear();
    change_.wait(lock, [&] {
        size_t open = 0;
        for (const auto& [block, jobs] : open_) open += jobs;
        return open == 0;
    });
    open_.clear();
}

void PieceLoader::work(const Read& read) {
    std::unique_lock lock(mutex_);
    for (;;) {
        change_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
        if (ended_) return;
        const auto [block, job] = waiting_.front();
        waiting_.pop_front();
        lock.unlock();
        std::exception_ptr problem;
        try {
            read(job.piece, job.to);
        } catch (...) {
            problem = std::current_exception();
        }
        lock.lock();
        if (problem && !problem_) problem_ = problem;
        --open_[block];
        change_.notify_all();
    }
}

}  // namespace convoy
