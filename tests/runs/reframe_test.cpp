// jobs/reframe/convoy.py, run by ReFrame itself with its local scheduler on two cores. It needs
// .deps/reframe (bash .ci/deps.sh reframe), or any reframe in PATH.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class Reframe : public testing::Test {
protected:
    void SetUp() override {
        for (const char* program : {".deps/reframe/bin/reframe", "reframe"})
            if (program_.empty() && run(std::string(program) + " --version").code == 0) program_ = program;
        if (program_.empty()) GTEST_SKIP() << "no ReFrame; bash .ci/deps.sh reframe";
    }
    /// Measures a small model on one rank and an all-reduce on two, and returns what convoy predict
    /// makes of them for two ranks.
    nlohmann::json references_of_this_machine() const {
        const Finished bench = convoy_alone("bench --device cpu --threads 1 --steps 10 --profile-steps 0 " + model_);
        EXPECT_EQ("", failure(bench));
        write_file(dir_.path("bench.json"), bench.out);
        EXPECT_EQ("", failure(launch(
                          2, "comm-test --device cpu --bytes 64M --iterations 2 --json " + dir_.path("sums.json"))));
        write_file(dir_.path("here.cluster"),
                   "nodes = 1\ngpus-per-node = 2\nnode-bandwidth = 1\nall-reduce-table = sums.json\n");
        const Finished f = convoy_alone("predict " + model_ + " --cluster " + dir_.path("here.cluster") + " --from " +
                                        dir_.path("bench.json") + " --ranks 2 --as reframe --system local:default");
        EXPECT_EQ("", failure(f));
        return nlohmann::json::parse(f.out, nullptr, false);
    }
    /// Runs the tests whose names match, with references that are `factor` times as high. Other
    /// tests may take the cores, so the factors are far from 1.
    Finished reframe(nlohmann::json cells, double factor, const std::string& names) const {
        for (auto& cell : cells)
            for (const char* command : {"bench", "comm-test"}) {
                nlohmann::json& value = cell.at(command).at("reference").at(0);
                value = value.get<double>() * factor;
            }
        write_file(dir_.path("references.json"), cells.dump());
        return with_references("CONVOY=" + sibling("convoy"), names);
    }
    Finished with_references(const std::string& variables, const std::string& names) const {
        const std::string here = dir_.path(),  // ReFrame keeps logs and reports in these folders
            environment = "env HOME=" + here + " TMPDIR=" + here + " CONVOY_REFERENCES=" + here + "/references.json ",
                          command = program_ +
                                    " --nocolor -C jobs/reframe/settings_local.py -c jobs/reframe/convoy.py --prefix " +
                                    here + "/reframe -S ConvoyAccept.level=quick -S ConvoyBench.steps=10 -r -n '" +
                                    names + "'";
        return run(with_limit(environment + variables + " " + command, 300));
    }
    const std::string model_ = "--model mnist-conv --batch-per-rank 64";
    TempDir dir_;
    std::string program_;
};

TEST_F(Reframe, SoundRanksThatAreFastEnoughPassAndOthersAreNamed) {
    const nlohmann::json cells = references_of_this_machine();
    ASSERT_EQ(cells.size(), 1u);
    const Finished good = reframe(cells, 0.01, "Convoy");
    EXPECT_EQ(good.code, 0) << good.out << good.err;
    EXPECT_NE(good.out.find("Ran 3/3 test case(s)"), std::string::npos) << good.out;
    for (const char* figure : {"P: images_per_s: ", "P: bus_bandwidth: "})
        EXPECT_NE(good.out.find(figure), std::string::npos) << good.out;
    bool kept = false;  // the report of convoy accept
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path("reframe/output")))
        kept = kept || entry.path().filename() == "accept.json";
    EXPECT_TRUE(kept);
    const Finished slow = reframe(cells, 1000, "Bench|CommTest");
    EXPECT_EQ(slow.code, 1) << slow.out;
    for (const char* figure :
         {"failed to meet reference(s): images_per_s=", "failed to meet reference(s): bus_bandwidth="})
        EXPECT_NE(slow.out.find(figure), std::string::npos) << slow.out;
}

// A stand-in for convoy, which finds something wrong.
TEST_F(Reframe, AClusterThatIsNotAcceptedFails) {
    write_file(dir_.path("convoy"), "");
    ASSERT_EQ(run("chmod +x " + dir_.path("convoy")).code, 0);
    const auto verdict = [&](const std::string& word) {
        write_file(dir_.path("convoy"), "#!/bin/sh\necho 'verdict: " + word + "'\n");
        write_file(dir_.path("references.json"),
                   R"([{"system": "*", "model": "m", "device": "cpu", "ranks": 1, "ranks_per_node": 1}])");
        return with_references("CONVOY=" + dir_.path("convoy"), "Accept");
    };
    const Finished failed = verdict("FAIL"), warned = verdict("WARN");
    EXPECT_EQ(failed.code, 1) << failed.out;
    EXPECT_NE(failed.out.find("convoy accept has not accepted the cluster"), std::string::npos) << failed.out;
    EXPECT_EQ(warned.code, 0) << warned.out << warned.err;
}

// ReFrame writes the words of a cell into a shell script, and people hand references to each other.
TEST_F(Reframe, ReferencesOfOthersRunNoCommandAndNameNoFile) {
    write_file(dir_.path("convoy"), "#!/bin/sh\ntouch " + dir_.path("started") + "\n");
    ASSERT_EQ(run("chmod +x " + dir_.path("convoy")).code, 0);
    const auto started_with = [&](const nlohmann::json& options, const std::string& device, bool refused) {
        const nlohmann::json cell = {
            {"system", "*"},       {"model", "m"},
            {"device", device},    {"ranks", 1},
            {"ranks_per_node", 1}, {"bench", {{"options", options}, {"reference", {1, -0.1, nullptr, "images/s"}}}}};
        write_file(dir_.path("references.json"), nlohmann::json({cell}).dump());
        const Finished f = with_references("CONVOY=" + dir_.path("convoy"), "Bench");
        EXPECT_EQ(f.out.find("of a cell is not as convoy predict") != std::string::npos, refused) << f.out << f.err;
        return std::filesystem::exists(dir_.path("started"));
    };
    const std::string command = "touch " + dir_.path("ran");
    EXPECT_FALSE(started_with({"--model", "$(" + command + ")"}, "cpu", true));
    EXPECT_FALSE(started_with({"--model", "m;" + command}, "cpu", true));
    EXPECT_FALSE(started_with({"--model", "m"}, "cpu; " + command, true));
    EXPECT_FALSE(started_with({"--model", "m", "--timeline", "x.json"}, "cpu", true));
    EXPECT_FALSE(started_with({"--model", "m", "-v"}, "cpu", true));
    EXPECT_FALSE(std::filesystem::exists(dir_.path("ran")));
    EXPECT_TRUE(started_with({"--model", "m", "--bucket-mib", "2.5"}, "cpu", false)) << "else this test shows nothing";
}

// ReFrame prints the names of a cell and the units of its references.
TEST_F(Reframe, ReferencesOfOthersDoNotSteerTheTerminal) {
    const auto printed = [&](const std::string& key, const std::string& text) {
        nlohmann::json cell = {
            {"system", "*"},
            {"model", "m"},
            {"device", "cpu"},
            {"ranks", 1},
            {"ranks_per_node", 1},
            {"bench", {{"options", {"--model", "m"}}, {"reference", {1, -0.1, nullptr, "images/s"}}}}};
        if (key == "bench")
            cell[key]["reference"][3] = text;
        else
            cell[key] = text;
        write_file(dir_.path("references.json"), nlohmann::json({cell}).dump());
        const Finished f = with_references("CONVOY=/bin/true", "Accept");
        return f.out + f.err;
    };
    for (const std::string key : {"system", "model", "bench"})
        for (const char* text : {"x\x1b[2J", "x\n[  PASSED  ] forged"}) {
            const std::string all = printed(key, text);
            EXPECT_NE(all.find("'" + key + "' of a cell is not as convoy predict"), std::string::npos) << all;
            EXPECT_EQ(all.find('\x1b'), std::string::npos) << key;
            EXPECT_EQ(all.find("forged"), std::string::npos) << key;
        }
    for (const std::string system : {"*:default", "caf\u00e9:gpu"}) {
        const std::string all = printed("system", system);
        EXPECT_EQ(all.find("of a cell is not as"), std::string::npos) << system << ": " << all;
    }
}

TEST_F(Reframe, FilesThatAreNoReferencesAreRefused) {
    const std::string path = dir_.path("references.json");
    const auto refused = [&](const std::string& words) {
        const Finished f = with_references("CONVOY=/bin/true", "Accept");
        EXPECT_NE(f.out.find("value error: " + path + ": " + words), std::string::npos) << f.out << f.err;
        EXPECT_EQ((f.out + f.err).find("Traceback"), std::string::npos) << f.out << f.err;
    };
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    refused("is not a regular file");
    std::filesystem::remove(path);
    write_file(path, std::string((1 << 20) + 1, ' '));
    refused("is longer than 1 MiB");
    for (const std::string& text :
         {std::string(200'000, '['), std::string("[1]"), std::string("1"), std::string("[{}]"),
          std::string(R"([{"device": "cpu", "ranks": 1, "ranks_per_node": 1}])")}) {
        write_file(path, text);
        refused(text == "[{}]" ? "'device' of a cell is not as" : "is not as convoy predict");
    }
}

}  // namespace
}  // namespace convoy::test
