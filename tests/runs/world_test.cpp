// The variables of PyTorch's launchers: if they describe another world than MPI's, nothing is
// trained; if they describe the same one, they have no effect.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

constexpr const char* job = " comm-test --steps 1 --device cpu";
constexpr const char* evaluation = " evaluate --model-file none.h5 --data none";

/// Runs one process without mpirun, like torchrun.
Finished alone_with(const std::string& variables, const std::string& command = job) {
    return run(with_limit("env " + variables + " " + sibling("convoy") + command, 60));
}
/// Runs two ranks of mpirun, each with its `variables`. Does not run two programs (`mpirun A : B`),
/// because OpenMPI 5.0.7 crashes on that.
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
    // from a reserved block of addresses
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
