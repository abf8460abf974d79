// A run's environment in its metrics, in a benchmark's JSON and in `convoy info`: the same in each.
// Also, a run of a few seconds already has rows of /system.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "comm/host.h"
#include "run/metrics.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class Environment : public testing::Test {
protected:
    void SetUp() override { make_data(dir_.path("data"), 16, 4, "28x28x1", 1); }
    std::string train(const std::string& options) const {
        return "train --model mnist-linear --batch-size 8 --device cpu --data " + dir_.path("data") + " --output " +
               dir_.path("run") + " " + options;
    }
    TempDir dir_;
};

TEST_F(Environment, IsRecordedEverywhere) {
    ASSERT_EQ("", failure(launch(1, train("--max-steps 1"))));
    const auto run = read_metrics(dir_.path("run") + "/metrics.h5").run;
    const Finished bench =
        convoy_alone("bench --model linear --batch-per-rank 4 --steps 2 --profile-steps 0 --device cpu");
    ASSERT_EQ("", failure(bench));
    const std::string line = bench.out.substr(bench.out.rfind("\n{") + 1);
    const nlohmann::json json = nlohmann::json::parse(line).at("environment");
    const Finished info = convoy_alone("info");
    for (const auto& [name, text] : facts_of_host()) {
        EXPECT_EQ(run.at("environment_" + name), text);
        EXPECT_EQ(json.at(name), text);
        EXPECT_NE(info.out.find("\n" + name + std::string(13 - name.size(), ' ') + text + "\n"), std::string::npos)
            << info.out;
    }
    EXPECT_FALSE(run.contains("environment_gpu"));
}

/// Returns every text in a run's files that reveals where it ran: hosts, folders, addresses, the
/// system.
std::vector<std::string> telling(const std::string& folder) {
    std::vector<std::string> words = {folder, std::filesystem::current_path(), "environment_"};
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    words.emplace_back(host);
    for (const std::string& address : own_addresses()) words.push_back(address);
    for (const auto& [name, text] : facts_of_host())
        if (name == "kernel" || name == "os" || name == "memory") words.push_back(text);
    return words;
}

/// Returns a file's texts: of an HDF5 file what h5dump prints, or else its bytes.
std::string texts_of(const std::filesystem::path& path) {
    return path.extension() == ".h5" ? run("h5dump " + path.string()).out : read_file(path);
}

/// Whether texts hold a word that stands alone.
bool holds_apart(const std::string& texts, const std::string& word) {
    const auto apart = [&](size_t at) {
        return at >= texts.size() || (!std::isalnum(static_cast<unsigned char>(texts[at])) && texts[at] != '_');
    };
    for (size_t at = texts.find(word); at != std::string::npos; at = texts.find(word, at + 1))
        if ((at == 0 || apart(at - 1)) && apart(at + word.size())) return true;
    return false;
}

/// Whether a file holds a word. The bytes of weights and times are random: two letters, such as a
/// short host name, are found among them sooner or later, so a short word is looked for in texts.
bool holds(const std::filesystem::path& path, const std::string& word) {
    if (word.size() < 6) return holds_apart(texts_of(path), word);
    return read_file(path).find(word) != std::string::npos;
}

/// Returns the words that files of `run` hold, with the file's name.
std::set<std::string> told_by(const std::string& run, const std::vector<std::string>& words) {
    std::set<std::string> told;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(run))
        if (entry.is_regular_file())
            for (const std::string& word : words)
                if (holds(entry.path(), word)) told.insert(entry.path().filename().string() + ": " + word);
    return told;
}

TEST_F(Environment, IsFoundInTheFilesOfARunWithoutTheOption) {
    ASSERT_EQ("", failure(launch(1, train("--max-steps 1"))));
    const std::set<std::string> told = told_by(dir_.path("run"), telling(dir_.path()));
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    for (const std::string& word : {dir_.path(), std::string("environment_"), std::string(host)})
        EXPECT_TRUE(told.contains("metrics.h5: " + word)) << word;
    EXPECT_TRUE(holds_apart("host \"vm\"", "vm") && holds_apart("vm", "vm") && holds_apart("a vmap of vm.", "vm"));
    EXPECT_FALSE(holds_apart("a vmap", "vm") || holds_apart("qvm", "vm"));
}

TEST_F(Environment, IsLeftOutOfARunAndItsContinuations) {
    const std::vector<std::string> words = telling(dir_.path());
    ASSERT_EQ("", failure(launch(2, train("--no-environment --max-steps 2 --log-format plain"))));
    const std::string run = dir_.path("run");
    EXPECT_EQ(told_by(run, words), std::set<std::string>());
    const auto first = read_metrics(run + "/metrics.h5");
    EXPECT_NE(first.run.at("command_line").find("--data data --output run --no-environment"), std::string::npos);
    EXPECT_NE(first.run.at("configuration").find("data = data\n"), std::string::npos);
    ASSERT_EQ(first.rows<RankRow>().size(), 2u);
    EXPECT_EQ(first.rows<RankRow>()[1].host, "host-1");
    EXPECT_NE(first.run.at("kinds"), "");
    const Finished report = convoy_alone("report --format json " + run);
    ASSERT_EQ("", failure(report));
    EXPECT_EQ(nlohmann::json::parse(report.out).at(0).at("hosts"), 1) << report.out;

    // resumes without the option, in the folder and in another one
    const Finished second = launch(2, train("--resume auto --epochs 2"));
    ASSERT_EQ("", failure(second));
    EXPECT_NE(second.out.find("do not say where this runs, as before"), std::string::npos) << second.out;
    const std::string from = run + "/checkpoints/step-000000000002.h5";
    std::string elsewhere = train("--epochs 2 --resume " + from);
    elsewhere.replace(elsewhere.find("/run "), 5, "/other ");
    ASSERT_EQ("", failure(launch(1, elsewhere)));
    EXPECT_EQ(told_by(run, words), std::set<std::string>());
    EXPECT_EQ(told_by(dir_.path("other"), words), std::set<std::string>());
    EXPECT_EQ(read_file(run + "/metrics.jsonl").find("changed: data"), std::string::npos);
    EXPECT_NE(read_file(run + "/metrics.jsonl").find("from run/checkpoints/step-000000000002.h5"), std::string::npos);
}

TEST_F(Environment, IsLeftOutOfARunThatWasKilledBeforeItsFirstCheckpoint) {
    ASSERT_EQ("", failure(launch(1, train("--no-environment --max-steps 1"))));
    for (const char* name : {"checkpoints", "model.h5", "model-best.h5"})
        std::filesystem::remove_all(dir_.path("run/") + name);
    ASSERT_EQ("", failure(launch(1, train("--resume auto --max-steps 1"))));
    EXPECT_EQ(told_by(dir_.path("run"), telling(dir_.path())), std::set<std::string>());
}

TEST_F(Environment, OfEarlierStartsIsSaidToStay) {
    ASSERT_EQ("", failure(launch(1, train("--max-steps 1"))));
    const Finished f = launch(1, train("--no-environment --resume auto --max-steps 2"));
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.err.find(dir_.path("run") + ": what earlier starts of this run recorded stays there"),
              std::string::npos)
        << f.err;
    EXPECT_FALSE(read_metrics(dir_.path("run/metrics.h5")).run.contains("environment_kernel"));

    // In another folder, what changed since that run is recorded without its paths.
    std::string elsewhere =
        train("--no-environment --max-steps 3 --resume " + dir_.path("run/checkpoints/step-000000000002.h5"));
    elsewhere.replace(elsewhere.find("/run "), 5, "/other ");
    ASSERT_EQ("", failure(launch(1, elsewhere)));
    EXPECT_NE(read_file(dir_.path("other/metrics.jsonl")).find("output = run -> other"), std::string::npos);
    EXPECT_EQ(told_by(dir_.path("other"), telling(dir_.path())), std::set<std::string>());
}

TEST_F(Environment, IsLeftOutOfMeasurements) {
    const std::vector<std::string> words = telling(dir_.path());
    const Finished bench = launch(1, "bench --no-environment --model mnist-linear --data " + dir_.path("data") +
                                         " --batch-per-rank 4 --warmup 0 --steps 2 --profile-steps 0 --device cpu "
                                         "--timeline " +
                                         dir_.path("out/t.json") + " --output " + dir_.path("out/run"));
    ASSERT_EQ("", failure(bench));
    const auto json = nlohmann::json::parse(bench.out.substr(bench.out.rfind("\n{") + 1));
    EXPECT_FALSE(json.contains("environment"));
    EXPECT_EQ(json.at("data"), "data");
    EXPECT_TRUE(json.contains("versions"));
    ASSERT_EQ("", failure(launch(
                      2, "comm-test --device cpu --bytes 1K --no-environment --json " + dir_.path("out/sums.json"))));
    EXPECT_EQ(told_by(dir_.path("out"), words), std::set<std::string>());
    EXPECT_EQ("", refusal(convoy_alone("comm-test --no-environment"), Exit::usage, {"--no-environment", "--json"}));
}

TEST_F(Environment, ARunOfSecondsHasRowsOfItsSystem) {
    const std::string endless = train("--epochs 1000000 --eval-every 0 --checkpoint-every none");
    const Finished f = sampled(sibling("convoy") + " " + endless, dir_.path("run"), 3);
    ASSERT_EQ(f.code, 85) << f.err;
    const std::vector<double> time = column(dir_.path("run"), "system/time");
    ASSERT_GE(time.size(), 3u);
    EXPECT_LT(time[2] - time[0], 10) << "a row is the mean of one second, not of ten";
    for (const double busy : column(dir_.path("run"), "system/utilisation")) EXPECT_GT(busy, 0);
}

}  // namespace
}  // namespace convoy::test
