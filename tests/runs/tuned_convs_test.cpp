// Times of convolutions on CPUs that a training measures: where they are stored, and which runs use
// them.
#include <regex>
#include <set>

#include "tests/runs/resume.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {

class TunedConvs : public ResumeTest {
protected:
    TunedConvs() { make_data(dir_.path("colours"), 60, 20, "12x12x3", 2); }

    Options small(Options changes = {}) const {
        changes.insert({{"data", dir_.path("colours")},
                        {"model", "resnet18"},
                        {"stem", "cifar"},
                        {"batch-size", "6"},
                        {"epochs", "1"},
                        {"threads", "1"},
                        {"tuning", "60"},  // other tests use the cores, too
                        {"checkpoint-every", "3"}});
        return changes;
    }
    Finished run(int ranks, const std::string& name, const Options& options, const std::string& environment) const {
        return test::run("export " + environment + "; " + launch_command(ranks, train(name, options), 120));
    }
    std::string cache(const std::string& name = "cache") const { return "XDG_CACHE_HOME=" + dir_.path(name); }
    /// Returns the path of the only file in a cache.
    std::string file_in(const std::string& name) const {
        return fs::directory_iterator(dir_.path(name) + "/convoy")->path();
    }
    /// Returns the lines "KEY = WAY …" by key.
    static std::map<std::string, std::string> lines_of(const std::string& text) {
        std::map<std::string, std::string> lines;
        std::istringstream in(text);
        for (std::string line; std::getline(in, line);)
            if (const size_t equals = line.find(" ="); equals != std::string::npos)
                lines[line.substr(0, equals)] = line.substr(equals + 2);
        return lines;
    }
    std::string tuning_in(const std::string& run) const { return read_tuning(checkpoints(run).back()); }
    /// Makes a cache in which one algorithm is the fastest wherever it was measured.
    void make_cache(const std::string& name, const std::string& like, const std::string& algorithm) const {
        std::string text;
        for (auto [key, algorithms] : lines_of(read_file(file_in(like)))) {
            if (const size_t at = algorithms.find(" " + algorithm + " "); at != std::string::npos) {
                const size_t number = at + algorithm.size() + 2, end = algorithms.find(' ', number);
                algorithms.replace(number, end == std::string::npos ? end : end - number, "0.001");
            }
            text.append(key).append(" =").append(algorithms).append("\n");
        }
        fs::create_directories(dir_.path(name) + "/convoy");
        write_file(dir_.path(name) + "/convoy/" + fs::path(file_in(like)).filename().string(), text);
    }
};

TEST_F(TunedConvs, AreMeasuredOnceAndKept) {
    ASSERT_EQ("", failure(run(1, "first", small(), cache())));
    const std::string kept = read_file(file_in("cache"));
    const auto lines = lines_of(kept);
    // resnet18 has 3x3 convolutions of 4 sizes with stride 1 and of 3 with stride 2, and 1x1
    // convolutions of 3 sizes; 1 is the stem. There are three directions, except for the stem's
    // data gradient; there are those that add and those that do not.
    std::set<std::string> sizes;
    int measured = 0;
    for (const auto& [key, algorithms] : lines) {
        for (const char* direction : {" forward", " data-gradient", " weight-gradient"})
            if (const size_t at = key.find(direction); at != std::string::npos) sizes.insert(key.substr(0, at));
        std::istringstream words(algorithms);
        std::string algorithm;
        int count = 0;
        for (double microseconds; words >> algorithm >> microseconds; ++count) EXPECT_GT(microseconds, 0) << key;
        EXPECT_NE(count, 1) << key << ":" << algorithms << ": there was nothing to compare it with";
        measured += count > 0;
    }
    EXPECT_GT(measured, 20) << "products of matrices can do all 1x1 convolutions, and those of few pixels";
    EXPECT_EQ(sizes.size(), 11u);
    EXPECT_EQ(lines_of(tuning_in("first")), lines);
    ASSERT_EQ("", failure(run(1, "second", small(), cache())));
    EXPECT_EQ(read_file(file_in("cache")), kept);
    expect_same("first", "second");
}

// A file from a Convoy that could not multiply patches.
TEST_F(TunedConvs, AreMeasuredAgainWhereAnAlgorithmIsNew) {
    ASSERT_EQ("", failure(run(1, "first", small(), cache())));
    const auto whole = lines_of(read_file(file_in("cache")));
    std::string older;
    for (auto [key, algorithms] : whole)
        older += key + " =" + std::regex_replace(algorithms, std::regex(" product \\S+"), "") + "\n";
    ASSERT_LT(older.size(), read_file(file_in("cache")).size()) << "no way was taken out";
    write_file(file_in("cache"), older);
    ASSERT_EQ("", failure(run(1, "second", small(), cache())));
    for (const auto& [key, algorithms] : lines_of(read_file(file_in("cache"))))
        EXPECT_EQ(count(algorithms, " product "), count(whole.at(key), " product ")) << key << algorithms;
    const std::string now = read_file(file_in("cache"));
    ASSERT_EQ("", failure(run(1, "third", small(), cache())));
    EXPECT_EQ(read_file(file_in("cache")), now);
}

// Otherwise a machine that was busy during its first run would stay slow.
TEST_F(TunedConvs, WithoutTimesAreTimedOnRequest) {
    const auto timed = [&] {
        int count = 0;
        for (const auto& [key, algorithms] : lines_of(read_file(file_in("cache")))) count += !algorithms.empty();
        return count;
    };
    const std::string warning = " convolutions were not timed";
    const Finished late = run(1, "late", small({{"tuning", "1e-9"}}), cache());
    ASSERT_EQ("", failure(late));
    EXPECT_EQ(count(late.err, warning), 1) << late.err;
    const std::string untimed = read_file(file_in("cache"));
    EXPECT_EQ(timed(), 0) << untimed;
    for (const char* tune : {"full", "1e-9"}) {
        ASSERT_EQ("", failure(run(1, "again", small({{"tuning", tune}, {"overwrite", "true"}}), cache())));
        EXPECT_EQ(read_file(file_in("cache")), untimed) << "runs repeat bit for bit: --tuning " << tune;
    }
    expect_same("late", "again");
    const Finished whole = run(1, "whole", small(), cache());
    ASSERT_EQ("", failure(whole));
    EXPECT_EQ(count(whole.err, warning), 0) << whole.err;
    EXPECT_GT(timed(), 20);
    const std::string now = read_file(file_in("cache"));
    ASSERT_EQ("", failure(run(1, "after", small({{"tuning", "full"}}), cache())));
    EXPECT_EQ(read_file(file_in("cache")), now);
    expect_same("whole", "after");
}

TEST_F(TunedConvs, OfACheckpointAreTakenAgain) {
    ASSERT_EQ("", failure(run(1, "first", small(), cache())));
    make_cache("direct", "cache", "direct");
    make_cache("product", "cache", "product");
    ASSERT_EQ("", failure(run(1, "whole", small(), cache("direct"))));
    ASSERT_EQ("", failure(run(1, "other", small(), cache("product"))));
    EXPECT_NE(tensors(dir_.path("whole") + "/model.h5"), tensors(dir_.path("other") + "/model.h5"))
        << "the two ways round alike, and the test shows nothing";
    ASSERT_EQ("", failure(run(1, "parts", small({{"max-steps", "6"}}), cache("direct"))));
    ASSERT_EQ("", failure(run(1, "parts", resumed(small()), cache("product"))));
    EXPECT_EQ(tensors(dir_.path("whole") + "/model.h5"), tensors(dir_.path("parts") + "/model.h5"));
}

TEST_F(TunedConvs, AreRankZerosOnAllRanks) {
    ASSERT_EQ("", failure(run(1, "first", small(), cache())));
    make_cache("cache0", "cache", "direct");
    make_cache("cache1", "cache", "product");
    ASSERT_EQ("", failure(run(2, "alike", small(), cache("cache0"))));
    const std::string own = dir_.path("own.sh");
    write_file(own, "#!/bin/sh\nXDG_CACHE_HOME=" + dir_.path("cache") + "$OMPI_COMM_WORLD_RANK exec " +
                        sibling("convoy") + " \"$@\"\n");
    fs::permissions(own, fs::perms::owner_all);
    std::string command = launch_command(2, train("each", small()), 120);
    const std::string program = sibling("convoy");
    command.replace(command.find(program), program.size(), own);
    ASSERT_EQ("", failure(test::run(command)));
    expect_same("alike", "each");
}

TEST_F(TunedConvs, AreNotMeasuredWhereNothingKeepsThem) {
    ASSERT_EQ("", failure(run(1, "quick", small({{"tuning", "quick"}}), cache())));
    EXPECT_FALSE(fs::exists(dir_.path("cache")));
    ASSERT_EQ("", failure(run(1, "homeless", small(), "HOME= XDG_CACHE_HOME=")));
    for (const char* name : {"quick", "homeless"}) {
        const auto lines = lines_of(tuning_in(name));
        EXPECT_GT(lines.size(), 20u);
        for (const auto& [key, algorithms] : lines) EXPECT_EQ(algorithms, "") << key;
    }
    expect_same("quick", "homeless");
    ASSERT_EQ("", failure(run(1, "dry", small({{"dry-run", "true"}}), cache())));
    EXPECT_FALSE(fs::exists(dir_.path("cache"))) << "a dry run measures nothing";
}

TEST_F(TunedConvs, InfoTellsThemWithTheirTimes) {
    const Finished info = test::run(
        "export " + cache() + "; " +
        launch_command(1, "info --plans resnet18 --image-size 12x12x3 --stem cifar --chip cpu --precision f32", 60));
    ASSERT_EQ("", failure(info));
    int told = 0;
    for (const auto& [key, algorithms] : lines_of(read_file(file_in("cache")))) {
        const size_t row = info.out.find(key);
        ASSERT_NE(row, std::string::npos) << key << " is not in\n" << info.out;
        const std::string line = info.out.substr(row, info.out.find('\n', row) - row);
        std::istringstream words(algorithms);
        std::string algorithm;
        for (double microseconds; words >> algorithm >> microseconds; ++told) {
            char time[64];
            std::snprintf(time, sizeof time, "%s %.2f ms", algorithm.c_str(), 1e3 * (microseconds * 1e-6));
            EXPECT_EQ(count(line, time), 1) << time << " is not in " << line;
        }
    }
    EXPECT_GT(told, 4) << "slow or busy cores leave some without times, but not all";
}

}  // namespace
}  // namespace convoy::test
