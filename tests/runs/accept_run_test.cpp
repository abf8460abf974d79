// convoy accept on CPU ranks: sound machines pass, and a bit that another program flips in a rank's
// memory is named with its rank.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class AcceptRun : public testing::Test {
protected:
    std::string command(const std::string& options) { return "accept --output " + dir_.path("accept") + " " + options; }
    nlohmann::json result() { return nlohmann::json::parse(read_file(dir_.path("accept") + "/accept.json")); }
    TempDir dir_;
};

TEST_F(AcceptRun, TwoSoundRanksPass) {
    make_data(dir_.path("data"), 40, 8, "8x8x3", 2);
    const Finished f = launch(2, command("--level quick --only sums,bits,input --data " + dir_.path("data")), 120);
    EXPECT_EQ("", failure(f));
    for (const char* line :
         {"PASS  sums", "PASS  bits       2 of 2 devices have the bits of their kind, and all together", "PASS  input",
          "\nverdict: PASS\n"})
        EXPECT_NE(f.out.find(line), std::string::npos) << line << "\n" << f.out;
    EXPECT_EQ(result()["verdict"], "PASS");
}

TEST_F(AcceptRun, AnySoundNumberOfRanksHasTheSameBitsAsItsFingerprint) {
    const std::string file = dir_.path("known.csv");
    EXPECT_EQ("", failure(launch(
                      3, "accept --level quick --only bits --output " + dir_.path("a") + " --save-fingerprint " + file,
                      120)));
    const Finished one =
        convoy_alone("accept --level quick --only bits --output " + dir_.path("b") + " --fingerprints " + file, 120);
    EXPECT_EQ("", failure(one));
    EXPECT_NE(one.out.find("PASS  bits       1 of 1 devices have the bits of their kind"), std::string::npos)
        << one.out;
}

TEST_F(AcceptRun, RefusesWhatItDoesNotKnow) {
    const auto refused = [&](const std::string& options, Exit code, const std::vector<std::string>& words) {
        EXPECT_EQ("", refusal(launch(2, command(options)), code, words)) << options;
    };
    refused("--only sums,bitz", Exit::usage, {"there is no level 'bitz'", "inventory, sums, bits, speed"});
    refused("--level huge", Exit::usage, {"huge"});
    refused("--only input", Exit::usage, {"needs --data"});
    refused("--only input --data " + dir_.path("nothing"), Exit::bad_input, {"nothing"});
    refused("--minutes -1", Exit::usage, {"--minutes"});
    refused("--fingerprints " + dir_.path("none.csv"), Exit::bad_input, {"none.csv"});
}

}  // namespace
}  // namespace convoy::test
