// The memory that a data set takes on CPUs.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

// The program itself takes 32 MiB.
TEST(Resident, ImagesTakeMemoryOfTheBudget) {
    constexpr size_t MiB = size_t(1) << 20;
    const MemoryLimit limit{.left = 80 * MiB, .name = "a made-up limit", .remedy = "", .group = "node"};
    cpu::CpuBackend backend({1, false}, test_comm(), "", MemoryBudget({{limit, 1}}, 1, "here"));
    EXPECT_NO_THROW(backend.set_aside(8 * MiB, "a test", MemoryOwner::each_rank));  // 40 are left
    std::vector<char> images(30 * MiB);
    const Buffer held = backend.resident(images.data(), images.size());
    EXPECT_EQ(
        "", problem_of_error(Exit::out_of_memory, {"a made-up limit", "10 MiB"}, [&] { backend.allocate(11 * MiB); }));
    EXPECT_NO_THROW(backend.allocate(9 * MiB));
}

}  // namespace
}  // namespace convoy::test
