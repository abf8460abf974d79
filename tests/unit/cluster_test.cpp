// Tests start other programs without the variables of the job that they run in.
#include "tests/support/cluster.h"

#include <gtest/gtest.h>

#include <regex>

namespace convoy::test {
namespace {

/// The variables that a bundle's ./run exports for OpenMPI.
std::vector<std::string> variables_of_a_bundle() {
    const std::string script = read_file("tests/cuda/bundle_run.sh");
    const std::regex variable("((OMPI|PMIX|OPAL)_[A-Za-z_]+)=");
    std::vector<std::string> names;
    for (std::sregex_iterator at(script.begin(), script.end(), variable), end; at != end; ++at)
        names.push_back((*at)[1]);
    return names;
}

TEST(Cluster, ProgramsKeepWhatABundleSaysOfItsPlaces) {
    const std::vector<std::string> names = variables_of_a_bundle();
    EXPECT_GE(names.size(), 9u);
    std::string set;
    for (const std::string& name : names) set.append("export ").append(name).append("=kept; ");
    const Finished f = run(set + with_limit("env", 10));
    for (const std::string& name : names) EXPECT_NE(f.out.find(name + "=kept\n"), std::string::npos) << name;
}

TEST(Cluster, ProgramsKnowNothingOfTheJobThatStartsThem) {
    const std::vector<std::string> names = {
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_ess",   "OMPI_MCA_orte_hnp_uri", "PMIX_RANK",
        "PMIX_SERVER_URI2",     "PMIX_NAMESPACE",       "OMP_NUM_THREADS"};
    std::string set;
    for (const std::string& name : names) set.append("export ").append(name).append("=0; ");
    const Finished f = run(set + with_limit("env", 10));
    EXPECT_EQ(f.code, 0);
    for (const std::string& name : names) EXPECT_EQ(f.out.find(name + "="), std::string::npos) << name;
}

}  // namespace
}  // namespace convoy::test
