// The launcher's words in the command that continues a run, without values of variables.
#include "cli/recorded_options.h"

#include <gtest/gtest.h>

#include "run/configuration.h"

namespace convoy::test {
namespace {

using Words = std::vector<std::string>;

TEST(RecordedOptions, NamesVariablesOfTheLauncherWithoutTheirValues) {
    EXPECT_EQ(without_values({"mpirun", "-x", "A=s3cret", "-np", "2", "-x", "B", "--x", "C=s3cret=2"}),
              (Words{"mpirun", "-x", "A", "-np", "2", "-x", "B", "--x", "C"}));
    EXPECT_EQ(without_values({"srun", "--export=ALL,A=s3cret,B", "-n", "2"}),
              (Words{"srun", "--export=ALL,A,B", "-n", "2"}));
    EXPECT_EQ(without_values({"srun", "--export", "A=s3cret"}), (Words{"srun", "--export", "A"}));
    EXPECT_EQ(without_values({"srun", "--export=ALL,A='s3cret,s3cret',B"}), (Words{"srun", "--export=ALL,A"}));
    EXPECT_EQ(without_values({"mpirun", "apptainer", "exec", "--env", "A=s3cret,B=s3cret", "--env=C=s3cret", "x.sif"}),
              (Words{"mpirun", "apptainer", "exec", "--env", "A,B", "--env=C", "x.sif"}));
    EXPECT_EQ(without_values({"mpirun", "--mca", "mca_base_env_list", "A=s3cret;B", "-np", "2"}),
              (Words{"mpirun", "--mca", "mca_base_env_list", "A;B", "-np", "2"}));
    EXPECT_EQ(without_values({"mpirun", "-np", "2", "/usr/bin/env", "-u", "B", "A=s3cret", "numactl", "--membind=0"}),
              (Words{"mpirun", "-np", "2", "/usr/bin/env", "-u", "B", "numactl", "--membind=0"}));
}

TEST(RecordedOptions, KeepsWhatElseHasAnEqualsSign) {
    const Words words = {"mpirun", "--map-by", "node:PE=4", "--mca", "btl_tcp_if_include", "a=b", "-H", "m1:2"};
    EXPECT_EQ(without_values(words), words);
    EXPECT_EQ(without_values({}), Words{});
}

// The name of a folder of data of another person may have a line end.
TEST(RecordedOptions, AValueIsOneLine) {
    const ConfigPairs given = {{"data", "a\nlog-interval = 7"}, {"output", "b\r\noverwrite = true"}, {"lr", "0.1"}};
    EXPECT_EQ(config_pairs(config_text(given)),
              (ConfigPairs{{"data", "a log-interval = 7"}, {"output", "b  overwrite = true"}, {"lr", "0.1"}}));
}

}  // namespace
}  // namespace convoy::test
