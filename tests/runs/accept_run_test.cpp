// convoy accept on CPU ranks: sound machines pass, and a bit that another program flips in a rank's
// memory is named with its rank.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/decode.h"
#include "plan/split.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class AcceptRun : public testing::Test {
protected:
    std::string command(const std::string& options) { return "accept --output " + dir_.path("accept") + " " + options; }
    /// The results of the n-th run: its folder is new, accept-2 and so on.
    nlohmann::json result(int n = 1) {
        const std::string folder = dir_.path("accept") + (n == 1 ? "" : "-" + std::to_string(n));
        return nlohmann::json::parse(read_file(folder + "/accept.json"));
    }
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

    std::string other = read_file(file);
    char& last = other.at(other.rfind('"') - 1);  // of the last hash
    last = last == '0' ? '1' : '0';
    write_file(file, other);
    const Finished kept = convoy_alone(
        "accept --level quick --only bits --output " + dir_.path("c") + " --save-fingerprint " + file, 120);
    EXPECT_EQ("", refusal(kept, Exit::bad_input, {file, "has other bits of"}));
    EXPECT_NE(kept.out.find("\nverdict: "), std::string::npos) << "the verdict stays: " << kept.out;
    EXPECT_EQ(read_file(file), other);

    write_file(dir_.path("odd.csv"), "no fingerprints\n");
    const Finished wrong = convoy_alone("accept --level quick --only bits --output " + dir_.path("d") +
                                            " --fingerprints " + file + " --save-fingerprint " + dir_.path("odd.csv"),
                                        120);
    EXPECT_EQ(wrong.code, int(Exit::not_accepted)) << "the verdict counts, not the file that was not saved";
    EXPECT_NE(wrong.err.find("warning: " + dir_.path("odd.csv") + ":1: "), std::string::npos) << wrong.err;
}

// The bit is flipped by another program, as a fault of memory is: in the image that each repetition
// of one rank's training reads last, so that a flip at almost any moment changes that repetition.
// flip_bit.py waits 0.3 s between its looks, so that other repetitions stay as they are.
TEST_F(AcceptRun, ABitThatIsFlippedFromOutsideIsNamedWithItsRank) {
    constexpr int batch = 8, steps = 50, side = 28;
    const Source made = make_synthetic({.images = batch * steps,
                                        .test_images = 0,
                                        .height = side,
                                        .width = side,
                                        .channels = 1,
                                        .classes = 10,
                                        .seed = 1});
    std::vector<uint8_t> image(size_t(side) * side);
    int32_t label = 0;
    made.splits.at(0).read(permutation(batch * steps, 1, 0).back(), 1, image.data(), &label);
    write_file(dir_.path("image"), std::string(image.begin(), image.end()));
    const std::string folder = dir_.path("accept");
    const auto accept = [&](const std::string& options, const std::string& flip) {
        const std::string job = launch_command(3, command("--only endurance --level long " + options), 60);
        return run("( " + job + " ) & job=$!; " + flip + "; wait $job");
    };
    const Finished sound = accept("--minutes 0.05", "true");
    EXPECT_EQ("", failure(sound));
    const Finished wrong = accept("--minutes 0.15", "/usr/bin/python3 tests/support/flip_bit.py " + dir_.path("image") +
                                                        " " + folder + " 1 5 20 || kill $job");
    if (wrong.err.find("flips only") != std::string::npos) GTEST_SKIP() << "no right to write another process's memory";
    EXPECT_EQ(wrong.code, int(Exit::not_accepted)) << wrong.out << wrong.err;
    const nlohmann::json level = result(2)["levels"][0];
    EXPECT_EQ(level["outcome"], "FAIL");
    ASSERT_EQ(level["blamed"].size(), 1u) << level;
    EXPECT_EQ(level["blamed"][0]["device"], "rank 1");
    const std::string reason = level["blamed"][0]["reason"];
    EXPECT_EQ(reason.find("other bits than at first in "), 0u) << reason;
    EXPECT_NE(reason.find(" repetitions: step 50 after "), std::string::npos) << reason;
    EXPECT_LT(reason.size(), 120u) << "a few deviations are named, the others counted: " << reason;
    record_fault("a bit of one rank's memory, flipped by another program", "that rank is named, exit 8",
                 "rank 1 of 3 named with its step, the others not; exit 8", 2);
}

// Network namespaces as hosts. One of them sends and receives at 100 Mbit/s.
TEST_F(AcceptRun, TheHostWithASlowCableIsNamedAndItsPartnersAreNot) {
    const Finished f = run(with_limit(
        "bash tests/support/hosts.sh 4 1 'build/convoy " + command("--only sums --level quick") + "' 3 100mbit", 150));
    if (f.code == 77) GTEST_SKIP() << "this user may not make network namespaces";
    EXPECT_EQ(f.code, int(Exit::not_accepted)) << f.out << f.err;
    const nlohmann::json level = result()["levels"][0];
    // Four hosts on two cores: noise may slow a pair, but no host with all its partners.
    EXPECT_EQ(level["blamed"][0]["host"], "node03") << level;
    EXPECT_EQ(result()["drain"], nlohmann::json({"node03"}));
    record_fault("one of four hosts with a slow cable", "that host is named, its partners are not; exit 8",
                 "node03 named, 3 partners not; exit 8", 1);
}

// Far more ranks than cores. The limit notices work of a rank that grows with the number of ranks:
// two cores took 120 s when each rank added up the expected sum of each element over all ranks.
TEST_F(AcceptRun, SixtyFourRanksHaveAVerdictWithinNinetySeconds) {
    const Finished f = launch(64, command("--level quick --only sums,bits --device cpu"), 90);
    EXPECT_EQ("", failure(f));
    for (const char* line :
         {"PASS  sums", "PASS  bits       64 of 64 devices have the bits of their kind, and all together",
          "\nverdict: PASS\n"})
        EXPECT_NE(f.out.find(line), std::string::npos) << line << "\n" << f.out;
    EXPECT_EQ(result()["hosts"].size(), 64u);
}

TEST_F(AcceptRun, OneRankIsComparedWithNothing) {
    const Finished f = convoy_alone(command("--device cpu --only sums,bits,speed --level quick"), 120);
    EXPECT_EQ("", failure(f));
    for (const char* line :
         {"SKIP  sums       one rank reduces nothing", "SKIP  bits       1 devices of 1 kinds", "SKIP  speed"})
        EXPECT_NE(f.out.find(line), std::string::npos) << line << "\n" << f.out;
    EXPECT_EQ(result()["verdict"], "SKIP");
}

TEST_F(AcceptRun, RanksOfTwoKindsAreComparedEachWithTheirKind) {
    const std::string bits = " " + sibling("convoy") + " " + command("--device cpu --only bits --level quick");
    const Finished f = mpirun("-np 2" + bits + " : -np 1 -x ONEDNN_MAX_CPU_ISA=SSE41" + bits, 120);
    EXPECT_EQ("", failure(f));
    const nlohmann::json level = result()["levels"][0];
    EXPECT_EQ(level["outcome"], "WARN") << level;
    EXPECT_EQ(level["blamed"].size(), 0u) << level;
    EXPECT_NE(std::string(level["figure"]).find("of 2 kinds; 1 were compared with nothing"), std::string::npos)
        << level;
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
