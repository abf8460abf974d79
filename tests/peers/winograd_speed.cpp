// Speed of Winograd's tiles with values in bf16 on two threads: GFLOP/s, counted for a direct sum,
// of forward, data gradient and weight gradient. Reports the fastest of 15 alternating runs. First
// it prints the round trip of a cache line between the cores. On a virtual machine whose cores
// move, it tells whether they share an L3 cache (about 60 ns) or not (340 ns).
//
//   flags="-O2 -std=c++20 -fopenmp -Isrc build/src/backend/cpu/winograd.o build/src/base/memory.o"
//   g++ tests/peers/winograd_speed.cpp $flags -o winograd_speed && ./winograd_speed
#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "backend/cpu/winograd.h"
#include "base/memory.h"

namespace {

using convoy::bf16;
using convoy::cpu::Winograd;

struct Size {
    int n, side, in, out;
    double gflop() const { return 18e-9 * n * side * side * in * out; }
};

constexpr Size sizes[] = {{256, 7, 256, 256}, {256, 15, 64, 64}, {128, 31, 24, 64}, {32, 32, 64, 64},
                          {32, 16, 128, 128}, {32, 8, 256, 256}, {64, 16, 96, 96},  {8, 56, 64, 64},
                          {8, 28, 128, 128},  {8, 14, 256, 256}, {8, 7, 512, 512},  {64, 4, 512, 512}};

double seconds(const auto& run) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Returns the ns that a cache line takes from one thread to the other and back.
double round_trip() {
    constexpr int trips = 20000;
    alignas(64) std::atomic<int> line{0};
    const double whole = seconds([&] {
#pragma omp parallel num_threads(2)
        for (int i = omp_get_thread_num(); i < 2 * trips; i += 2) {
            while (line.load() != i) {
            }
            line.store(i + 1);
        }
    });
    return whole / trips * 1e9;
}

struct Values {
    std::vector<bf16> x, y;
    std::vector<float> weight;
    explicit Values(const Size& s)
        : x(size_t(s.n) * s.side * s.side * s.in),
          y(size_t(s.n) * s.side * s.side * s.out),
          weight(size_t(9) * s.in * s.out, 0.01F) {}
};

/// Updates the shortest time of each direction.
void race(const Winograd& w, Values& v, std::array<double, 3>& best) {
    const std::unique_ptr<void, void (*)(void*)> space(convoy::allocate_pages(w.workspace_bytes()), std::free);
    auto* const work = space.get();
    w.weight_gradient(v.x.data(), v.y.data(), v.weight.data(), work);  // first touch of its memory
    w.forward(v.x.data(), v.weight.data(), v.y.data(), work);
    best[0] = std::min(best[0], seconds([&] { w.forward(v.x.data(), v.weight.data(), v.y.data(), work); }));
    best[1] =
        std::min(best[1], seconds([&] { w.data_gradient(v.y.data(), v.weight.data(), v.x.data(), false, work); }));
    best[2] = std::min(best[2], seconds([&] { w.weight_gradient(v.x.data(), v.y.data(), v.weight.data(), work); }));
}

}  // namespace

int main() {
    constexpr int threads = 2, runs = 15;
    for (const Size& s : sizes) {
        const std::array tiles{4, Winograd::large_tile(s.side, s.side)};
        std::array<std::array<double, 3>, 2> best{{{1e9, 1e9, 1e9}, {1e9, 1e9, 1e9}}};
        Values values(s);
        for (int run = 0; run < runs; ++run)
            for (size_t i = 0; i < tiles.size(); ++i)
                race({s.n, s.side, s.side, s.in, s.out, threads, tiles[i]}, values, best[i]);
        std::printf("%3.0f ns  %3d of %2dx%-2d %3d to %3d", round_trip(), s.n, s.side, s.side, s.in, s.out);
        for (size_t i = 0; i < tiles.size(); ++i)
            std::printf("  F(%dx%d) %4.0f %4.0f %4.0f", tiles[i], tiles[i], s.gflop() / best[i][0],
                        s.gflop() / best[i][1], s.gflop() / best[i][2]);
        std::printf("\n");
    }
    return 0;
}
