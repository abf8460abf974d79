// The variables of PyTorch's launchers: where they tell of another world than MPI does, nothing is
// trained; where they tell of the same, nothing happens.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

constexpr const char* job = " comm-test --steps 1 --device cpu";
constexpr const char* evaluation = " evaluate --model-file none.h5 --data none";

/// One process without mpirun, as torchrun starts it.
Finished alone_with(const std::string& variables, const std::string& command = job) {
    return run(with_limit("env " + variables + " " + sibling("convoy") + command, 60));
}
/// Two ranks of mpirun, with `variables` of each. Not as two programs (`mpirun A : B`): OpenMPI
/// 5.0.7 crashes then.
Finished two_with(const std::string& first, const std::string& second) {
    return mpirun("-np 2 bash -c 'if [ $OMPI_COMM_WORLD_RANK = 0 ]; then own=\"" + first + "\"; else own=\"" + second +
                  "\"; fi; exec env $own " + sibling("convoy") + job + "'");
}

TEST(World, ThatTorchrunToldOfIsNotTrainedAlone) {
    const std::vector<std::string> words = {"WORLD_SIZE is 2", "MPI", "1", "mpirun -np N", "torchrun"};
    EXPECT_EQ("", refusal(alone_with("RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost"), Exit::usage, words));
    EXPECT_EQ("", refusal(alone_with("WORLD_SIZE=2", evaluation), Exit::usage, words));
    EXPECT_EQ("", refusal(alone_with("WORLD_SIZE=many"), Exit::usage, {"WORLD_SIZE is many"}));
    EXPECT_EQ("", refusal(alone_with("RANK=1"), Exit::usage, {"RANK is 1", "calls this rank 0", "unset RANK"}));
    // of the block of addresses that are nobody's
    EXPECT_EQ("", refusal(alone_with("MASTER_ADDR=192.0.2.7"), Exit::usage, {"MASTER_ADDR is 192.0.2.7"}));
    EXPECT_EQ("", refusal(alone_with("MASTER_ADDR=nobody.invalid"), Exit::usage, {"MASTER_ADDR is nobody.invalid"}));
}

TEST(World, ThatMpiHasTooPasses) {
    char host[256] = "";
    ASSERT_EQ(gethostname(host, sizeof host), 0);
    for (const std::string& address : {std::string("localhost"), std::string("127.0.0.1"), std::string(host)})
        EXPECT_EQ("", failure(alone_with("RANK=0 WORLD_SIZE=1 MASTER_ADDR=" + address))) << address;
    EXPECT_EQ("", failure(alone_with("RANK= WORLD_SIZE= MASTER_ADDR="))) << "empty ones say nothing";
    EXPECT_EQ("", failure(two_with("RANK=0 WORLD_SIZE=2 MASTER_ADDR=192.0.2.7", "RANK=1 WORLD_SIZE=2")));
}

TEST(World, OfAnotherSizeOrOrderIsRefusedByAllRanks) {
    EXPECT_EQ("", refusal(two_with("WORLD_SIZE=4", "WORLD_SIZE=4"), Exit::usage, {"WORLD_SIZE is 4", "world of 2"}));
    EXPECT_EQ("", refusal(two_with("RANK=0", "RANK=0"), Exit::usage, {"RANK is 0", "calls this rank 1"}));
}

}  // namespace
}  // namespace convoy::test
