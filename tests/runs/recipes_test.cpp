// Every recipe under input/recipes: it parses, and flags override each of its lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "cli/train_options.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

/// Returns another value that `key` accepts, whatever a recipe says.
std::string other_value(const std::string& key) {
    static const std::map<std::string, std::string> values = {
        {"model", "resnet18"},     {"batch-size", "96"},
        {"batch-per-rank", "24"},  {"epochs", "3.5"},
        {"drop-last", "false"},    {"eval-every", "7"},
        {"optimizer", "adam"},     {"muon-momentum", "0.31"},
        {"momentum", "0.77"},      {"nesterov", "false"},
        {"lr", "0.0123"},          {"filter-lr", "3.25"},
        {"linear-lr", "2.25"},     {"lr-schedule", "cosine"},
        {"lr-points", "0:1,9:0"},  {"weight-decay", "0.00625"},
        {"decay-mode", "l2"},      {"label-smoothing", "0.3"},
        {"loss", "mean"},          {"whitening-bias-epochs", "2"},
        {"crop-pad", "3"},         {"image-size", "96"},
        {"resize", "280"},         {"random-resized-crop", "false"},
        {"crop-mode", "zero"},     {"flip", "false"},
        {"flip-mode", "random"},   {"tta", "mirror"},
        {"lr-unit", "step"},       {"norm-shift-lr", "12"},
        {"look-ahead", "9"},       {"look-ahead-decay", "0.5"},
        {"max-steps", "17"},       {"warmup-epochs", "2.5"},
        {"decay", "all"},          {"lr-milestones", "1,2"},
        {"lr-gamma", "0.5"},       {"lr-step-epochs", "3"},
        {"stem", "cifar"},         {"seed", "5"},
        {"mean", "0.25,0.5,0.75"}, {"stddev", "0.25,0.5,0.75"},
        {"log-interval", "3"},     {"crop-scale", "0.25,0.75"}};
    const auto found = values.find(key);
    return found == values.end() ? "" : found->second;
}

std::string resolved_value(const std::vector<std::string>& args, const std::string& key) {
    for (const auto& [name, value] : parse_train_options(args).resolved)
        if (name == key) return value;
    return "(not there)";
}

std::vector<fs::path> recipes() {
    std::vector<fs::path> paths;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator("input/recipes"))
        if (entry.path().extension() == ".cfg") paths.push_back(entry.path());
    return paths;
}

std::vector<std::string> keys_of(const std::string& recipe) {
    std::vector<std::string> keys;
    std::istringstream in(read_file(recipe));
    for (std::string line; std::getline(in, line);)
        if (const size_t equals = line.find(" = "); equals != std::string::npos && line[0] != '#')
            keys.push_back(line.substr(0, equals));
    return keys;
}

// This also holds if the flag leaves other lines of the recipe without effect (another schedule,
// another optimizer). The printed configuration then omits them, and can be read back.
TEST(Recipes, LoseEveryLineToFlags) {
    size_t tried = 0;
    const TempDir dir;
    for (const fs::path& recipe : recipes())
        for (const std::string& key : keys_of(recipe)) {
            const std::string value = other_value(key);
            ASSERT_NE(value, "") << key << " of " << recipe << " is not in the table above";
            const std::vector<std::string> args = {"--data", "x", "--config", recipe, "--" + key + "=" + value};
            EXPECT_EQ(resolved_value(args, key), value) << recipe;
            std::string printed;
            for (const auto& [name, v] : parse_train_options(args).resolved)
                printed += v.empty() ? "" : name + " = " + v + "\n";
            write_file(dir.path("printed.cfg"), printed);
            EXPECT_NO_THROW(parse_train_options({"--config", dir.path("printed.cfg")}))
                << recipe << " with " << args.back();
            ++tried;
        }
    EXPECT_GT(tried, 80u);
}

TEST(Recipes, AFlagOfTwoThatExcludeOneAnotherReplacesTheFilesOther) {
    const std::pair<std::string, std::string> batches[] = {{"batch-size", "batch-per-rank"},
                                                           {"batch-per-rank", "batch-size"}};
    for (const fs::path& recipe : recipes())
        for (const auto& [given, other] : batches) {
            const std::vector<std::string> args = {"--data", "x", "--config", recipe, "--" + given, "256"};
            EXPECT_EQ(resolved_value(args, given), "256") << recipe;
            EXPECT_EQ(resolved_value(args, other), "0") << recipe;
        }
    const TempDir dir;
    write_file(dir.path("both.cfg"), "batch-size = 8\nbatch-per-rank = 8\n");
    EXPECT_EQ("", problem_of_error(Exit::usage, {"exactly one"},
                                   [&] { parse_train_options({"--data", "x", "--config", dir.path("both.cfg")}); }));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"exactly one"}, [&] {
                  parse_train_options({"--data", "x", "--batch-size", "8", "--batch-per-rank", "8"});
              }));
}

// A recipe may come from another user.
TEST(Recipes, CannotSayWhatConvoyWritesOrReplaces) {
    const TempDir dir;
    const std::string recipe = dir.path("theirs.cfg");
    for (const auto& [line, instead] : {std::pair{"output = my run", "type --output 'my run'"},
                                        {"overwrite = true", "type --overwrite"},
                                        {"overwrite=yes", "type --overwrite"},
                                        {"output = false", "type --output false"},
                                        {"resume = auto", "type --resume auto"},
                                        {"keep = 0", "type --keep 0"},
                                        {"dry-run = true", "type --dry-run"},
                                        {"chip = h100", "type --chip h100"},
                                        {"print-config = true", "type --print-config"},
                                        {"log-dir = logs", "type --log-dir logs"}}) {
        write_file(recipe, std::string("batch-size = 8\n\n") + line + "\n");
        const std::string key = std::string(line).substr(0, std::string(line).find_first_of(" ="));
        EXPECT_EQ("", problem_of_error(Exit::usage, {recipe + ":3: " + key + ": a recipe may not", instead},
                                       [&] { parse_train_options({"--data", "x", "--config", recipe}); }));
        EXPECT_EQ("",
                  problem_of_error(Exit::usage, {recipe + ":3: " + key},
                                   [&] { parse_train_options({"--data", "x", "--output", "y", "--config", recipe}); }))
            << "also where a flag would win";
    }
    write_file(recipe, "timeline = t.json\n");
    EXPECT_EQ("", refusal(convoy_alone("bench --model linear --batch-size 4 --config " + recipe), Exit::usage,
                          {recipe + ":1: timeline: a recipe may not", "type --timeline t.json"}));
    write_file(recipe, "ranks = 2\n");
    EXPECT_EQ("", refusal(convoy_alone("sweep lr=0.1,0.2 --data x --batch-size 4 --config " + recipe), Exit::usage,
                          {recipe + ":1: ranks: a recipe may not", "type --ranks 2"}));
    // printed by --print-config of version 0.2
    write_file(recipe, "overwrite = false\nresume = none\nkeep = 2\nbatch-size = 8\n");
    EXPECT_NO_THROW(parse_train_options({"--data", "x", "--output", "y", "--overwrite", "--config", recipe}));
}

TEST(Recipes, ReplaceNoRun) {
    const TempDir dir;
    make_data(dir.path("data"), 20, 10, "28x28x1", 1);
    write_file(dir.path("run/metrics.h5"), "a run");
    write_file(dir.path("run/checkpoints/step-000000000002.h5"), "its checkpoint");
    write_file(dir.path("theirs.cfg"), "model = mnist-linear\nbatch-size = 8\nlog-dir = " + dir.path("logs") +
                                           "\noverwrite = true\noutput = " + dir.path("run") + "\n");
    const std::string train = "train --max-steps 1 --data " + dir.path("data") + " --config " + dir.path("theirs.cfg");
    EXPECT_EQ("", refusal(convoy_alone(train), Exit::usage, {"theirs.cfg:3: log-dir"}));
    EXPECT_EQ(read_file(dir.path("run/metrics.h5")), "a run");
    EXPECT_EQ(read_file(dir.path("run/checkpoints/step-000000000002.h5")), "its checkpoint");
    EXPECT_FALSE(fs::exists(dir.path("logs")));
    EXPECT_EQ(std::distance(fs::directory_iterator(dir.path("run")), fs::directory_iterator()), 2);
}

// An option whose value is a path either only reads, or is allowed only on the command line.
TEST(Recipes, NoOtherOptionWrites) {
    const std::set<std::string> reads = {"data", "config", "cluster", "init-from"};
    const std::string help = convoy_alone("train --help").out + convoy_alone("bench --help").out;
    std::set<std::string> paths;
    std::istringstream in(help);
    for (std::string line; std::getline(in, line);)
        if (const size_t name = line.find("--"), end = line.find(' ', name);
            end != std::string::npos && (line.substr(end, 5).find("DIR") == 1 || line.substr(end, 5).find("FILE") == 1))
            paths.insert(line.substr(name + 2, end - name - 2));
    std::set<std::string> expected = {"output", "log-dir", "timeline"};
    for (const std::string& path : expected) EXPECT_TRUE(writing_options().contains(path)) << path;
    expected.insert(reads.begin(), reads.end());
    EXPECT_EQ(paths, expected) << "does the new option write? then a recipe may not have it";
}

TEST(Recipes, SayWhichFilesTheyName) {
    const TempDir dir;
    make_data(dir.path("data"), 20, 10, "28x28x1", 1);
    const std::string recipe = dir.path("theirs.cfg"), line = "recipe    " + recipe + ": data = " + dir.path("data");
    write_file(recipe, "model = mnist-linear\nbatch-size = 8\ndata = " + dir.path("data") + "\n");
    const Finished f = convoy_alone("train --dry-run --config " + recipe);
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(count(f.out, line + "\n"), 1) << f.out;
    EXPECT_EQ(count(f.out, "recipe    "), 1) << f.out;
    const Finished own = convoy_alone("train --dry-run --config " + recipe + " --data " + dir.path("data"));
    ASSERT_EQ("", failure(own));
    EXPECT_EQ(count(own.out, "recipe    "), 0) << "a flag says it: " << own.out;
}

TEST(Recipes, Parse) {
    ASSERT_FALSE(recipes().empty());
    for (const fs::path& recipe : recipes()) {
        const Finished f = convoy_alone("train --data x --print-config --config " + recipe.string());
        EXPECT_EQ("", failure(f)) << recipe;
        EXPECT_NE(value_in(f.out, "model"), "");
    }
}

}  // namespace
}  // namespace convoy::test
