// Threads that read pieces: waiting, dropping pieces, and exceptions.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <latch>

#include "supply/piece_loader.h"

namespace convoy::test {
namespace {

/// Records reads; those of pieces from `held` on wait until they are released.
class Reads {
public:
    explicit Reads(int32_t held) : held_(held) {}
    std::function<PieceLoader::Read()> reader() {
        return [this] {
            return [this](int32_t piece, uint8_t* to) {
                begun.fetch_add(1);
                if (piece >= held_) released_.wait();
                if (piece < 0) throw std::runtime_error("piece " + std::to_string(piece));
                *to = uint8_t(piece);
            };
        };
    }
    void release() { released_.count_down(); }
    std::atomic<int> begun{0};

private:
    const int32_t held_;
    std::latch released_{1};
};

bool ends(const std::future<void>& f) {
    return f.wait_for(std::chrono::milliseconds(200)) == std::future_status::ready;
}

TEST(PieceLoader, WaitsForOneBlockAlone) {
    Reads reads(100);
    std::vector<uint8_t> to(8, 255);
    PieceLoader loader(reads.reader(), 2);
    loader.add(0, {{3, &to[0]}, {5, &to[1]}});
    loader.add(1, {{100, &to[2]}, {7, &to[3]}});
    loader.wait(0);
    EXPECT_EQ(to[0], 3);
    EXPECT_EQ(to[1], 5);
    std::future<void> second = std::async(std::launch::async, [&] { loader.wait(1); });
    EXPECT_FALSE(ends(second)) << "a piece of it is not read";
    reads.release();
    second.get();
    EXPECT_EQ(to[2], 100);
    EXPECT_EQ(to[3], 7);
    loader.wait(2);  // no piece was requested
}

TEST(PieceLoader, CancelDropsWhatWaitsAndWaitsForTheRest) {
    Reads reads(0);
    std::vector<uint8_t> to(64, 255);
    PieceLoader loader(reads.reader(), 2);
    std::vector<PieceLoader::Job> jobs;
    for (int32_t i = 0; i < 64; ++i) jobs.push_back({i, &to[i]});
    loader.add(4, jobs);
    while (reads.begun < 2) std::this_thread::yield();
    std::future<void> cancelled = std::async(std::launch::async, [&] { loader.cancel(); });
    EXPECT_FALSE(ends(cancelled)) << "two pieces are being written";
    reads.release();
    cancelled.get();
    EXPECT_EQ(reads.begun, 2);
    EXPECT_EQ(std::count(to.begin(), to.end(), 255), 62);
    loader.add(4, {{9, &to[9]}});
    loader.wait(4);
    EXPECT_EQ(to[9], 9);
}

TEST(PieceLoader, WhatAThreadThrowsIsThrownByWait) {
    Reads reads(100);
    uint8_t to = 255;
    PieceLoader loader(reads.reader(), 1);
    loader.add(0, {{1, &to}, {-7, &to}, {2, &to}});
    try {
        loader.wait(0);
        FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "piece -7");
    }
}

}  // namespace
}  // namespace convoy::test
