// Samples taken during a run, and what `convoy info` prints about network cards.
#include "run/system_sampler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "comm/network.h"
#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

TEST(SystemSampler, RowsAreMeansOfSamples) {
    int calls = 0;
    const auto sample = [&] { return SystemSample{.utilisation = double(++calls), .memory_bytes = 10.0 * calls}; };
    SystemSampler sampler(3, sample, {.every = 0.001, .single = 0, .samples_a_row = 4});
    std::vector<SystemRow> rows;
    for (int i = 0; i < 5000 && rows.size() < 2; ++i) {
        for (const SystemRow& row : sampler.take()) rows.push_back(row);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_GE(rows.size(), 2u);
    EXPECT_EQ(rows[0].rank, 3);
    EXPECT_EQ(rows[0].utilisation, 3.5);  // mean of 2, 3, 4, 5: the first is dropped
    EXPECT_EQ(rows[1].utilisation, 7.5);
    EXPECT_EQ(rows[1].memory_bytes, 75);
    EXPECT_TRUE(std::isnan(rows[0].power_watts));
    EXPECT_GE(rows[1].time, rows[0].time);
}

TEST(SystemSampler, TheFirstSamplesAreRowsOfTheirOwn) {
    int calls = 0;
    const auto sample = [&] {
        return SystemSample{.utilisation = double(++calls), .temperature_celsius = 50.0 + calls};
    };
    SystemSampler sampler(0, sample, {.every = 0.001, .single = 3, .samples_a_row = 2});
    std::vector<SystemRow> rows;
    for (int i = 0; i < 5000 && rows.size() < 5; ++i) {
        for (const SystemRow& row : sampler.take()) rows.push_back(row);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_GE(rows.size(), 5u);
    const double wanted[] = {2, 3, 4, 5.5, 7.5};
    for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(rows[i].utilisation, wanted[i]);
        EXPECT_EQ(rows[i].temperature_celsius, 50 + wanted[i]);
    }
}

TEST(SystemSampler, TheCpuBackendSaysHowBusyItIs) {
    const auto backend = make_cpu_backend(BackendOptions{.threads = 1}, test_comm());
    backend->sample();
    const auto start = std::chrono::steady_clock::now();
    volatile double x = 1;
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(100)) x = x * 1.0000001;
    const SystemSample busy = backend->sample();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const SystemSample idle = backend->sample();
    EXPECT_GT(busy.utilisation, idle.utilisation);
    EXPECT_LT(idle.utilisation, 0.5);
    EXPECT_GT(busy.memory_bytes, 1e6);
    EXPECT_TRUE(std::isnan(busy.power_watts));
}

TEST(SystemNetwork, CardsThatAreUpAreNamed) {
    const TempDir dir;
    EXPECT_EQ(network_cards(dir.path()), "none");
    write_file(dir.path("class/infiniband/mlx5_0/ports/1/state"), "4: ACTIVE\n");
    write_file(dir.path("class/infiniband/mlx5_0/ports/1/rate"), "400 Gb/sec (4X NDR)\n");
    write_file(dir.path("class/infiniband/mlx5_1/ports/1/state"), "1: DOWN\n");
    write_file(dir.path("class/infiniband/mlx5_1/ports/1/rate"), "10 Gb/sec (4X SDR)\n");
    for (const char* card : {"eth0", "eth1", "lo"})
        write_file(dir.path("class/net/") + card + "/operstate", std::string(card) == "eth1" ? "down\n" : "up\n");
    for (const char* card : {"eth0", "eth1"})
        std::filesystem::create_directories(dir.path("class/net/") + card + "/device");
    write_file(dir.path("class/net/eth0/speed"), "25000\n");
    EXPECT_EQ(network_cards(dir.path()), "mlx5_0 400 Gb/sec (4X NDR), eth0 25 Gb/s");
    EXPECT_EQ(verbs_ports(dir.path()), "mlx5_0 400 Gb/sec (4X NDR)");
    std::filesystem::remove_all(dir.path("class/infiniband"));
    EXPECT_EQ(verbs_ports(dir.path()), "");
}

}  // namespace
}  // namespace convoy::test
