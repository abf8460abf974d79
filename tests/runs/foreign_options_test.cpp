// Options of PyTorch's scripts and launchers are not aliases: the error names Convoy's option, and
// that option exists.
#include "cli/foreign_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "cli/commands.h"
#include "cli/train_options.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

struct Case {
    const char *theirs, *ours;
};
const Case cases[] = {{"--no-cuda", "--device cpu"},
                      {"--gpu-nums", "mpirun -np N"},
                      {"--gpu_devices", "--devices"},
                      {"--gpu_device", "--devices"},
                      {"-g", "mpirun -np N"},
                      {"-e", "--epochs"},
                      {"-b", "--batch-per-rank"},
                      {"-td", "--output"},
                      {"-dd", "--data"},
                      {"-li", "--log-interval"},
                      {"-sm", "--output"},
                      {"--train-dir", "--output"},
                      {"--dataset-dir", "--data"},
                      {"--save-model", "--output"},
                      {"--root", "--data"},
                      {"--learning-rate", "--lr"},
                      {"--backend", "NCCL"},
                      {"-i", "mpirun -np N"},
                      {"--init-method", "mpirun -np N"},
                      {"--init_method", "mpirun -np N"},
                      {"-r", "mpirun -np N"},
                      {"--rank", "mpirun -np N"},
                      {"-s", "mpirun -np N"},
                      {"--world-size", "mpirun -np N"},
                      {"--ip", "mpirun -np N"},
                      {"--port", "mpirun -np N"},
                      {"--test-batch-size", "--batch-per-rank"},
                      {"--test-batchsize", "--batch-per-rank"},
                      {"-tb", "--batch-per-rank"},
                      {"--num_worker", "--threads"},
                      {"--num-workers", "--threads"},
                      {"--workers", "--threads"},
                      {"--print-freq", "--log-interval"},
                      {"--arch", "--model"},
                      {"--lr-step", "--lr-step-epochs"},
                      {"--gamma", "--lr-gamma"},
                      {"--tune", "--tuning"},
                      {"--dist-url", "mpirun -np N"},
                      {"--local_rank", "mpirun -np N"},
                      {"--nproc_per_node", "mpirun -np N"}};

TEST(ForeignOptions, OursAreNamed) {
    for (const auto& [theirs, ours] : cases)
        for (const std::string& written : {std::string(theirs), std::string(theirs) + "=2"})
            EXPECT_EQ("", problem_of_error(Exit::usage, {std::string(theirs) + ": ", ours},
                                           [&] { parse_train_options({"--data", "x", written, "4"}); }));
}

std::vector<std::string> found_in(const std::string& text, const char* pattern) {
    const std::regex expression(pattern);
    std::vector<std::string> found;
    for (std::sregex_iterator m(text.begin(), text.end(), expression), end; m != end; ++m) found.push_back((*m)[1]);
    return found;
}

std::string said_of(const std::vector<std::string>& arguments) {
    try {
        parse_train_options(arguments);
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}

// For each foreign flag on the left of the table, train's answer first names what is on the right.
TEST(ForeignOptions, AreAnsweredAsTheTableForPeopleSays) {
    const std::string page = read_file("input/recipes/tests/README.md");
    size_t flags = 0;
    for (const std::string& row : found_in(page.substr(page.find("## Flag by flag")), "\n(\\| `-.*\\|)")) {
        const std::string theirs = row.substr(0, row.find(" | ")), ours = row.substr(row.find(" | "));
        const std::vector<std::string> right = found_in(ours, "(--[a-z-]+)");
        for (const std::string& flag : found_in(theirs, "`(-[-a-zA-Z_]+)")) {
            if (flag == "--batch-size" || flag == "--epochs") continue;  // ours, too
            const std::string said = said_of({"--data", "x", flag, "2"});
            ASSERT_EQ(said.rfind(flag, 0), 0u) << said;
            const std::vector<std::string> named = found_in(said.substr(flag.size()), "(--[a-z-]+)");
            if (named.empty())
                EXPECT_TRUE(count(ours, "mpirun") > 0 && count(said, "mpirun") > 0) << said << ours;
            else
                EXPECT_NE(std::find(right.begin(), right.end(), named[0]), right.end()) << said << ours;
            ++flags;
        }
    }
    EXPECT_GT(flags, 35u) << "the table was found";
}

TEST(ForeignOptions, OnlyWhatTheCommandHasIsNamed) {
    const std::vector<std::string> unknown = {"there is no such option"};
    for (const char* arguments :
         {"convert cifar10 --root x", "convert cifar10 --train-dir x", "evaluate --print-freq 1", "evaluate -b 64",
          "verify --epochs 3", "comm-test --arch resnet50", "bench -e 3", "bench --num-epochs 3", "demo -e 3",
          "demo --learning-rate 1", "demo --gamma 0.1", "demo -sm x", "bench --pretrained"})
        EXPECT_EQ("", refusal(convoy_alone(arguments), Exit::usage, unknown)) << arguments;
    EXPECT_EQ("", refusal(convoy_alone("evaluate --root x"), Exit::usage, {"--root: is --data here"}));
    EXPECT_EQ("", refusal(convoy_alone("bench --learning-rate 1"), Exit::usage, {"--learning-rate: is --lr here"}));
    for (const char* arguments : {"bench --epoch 3", "demo --weigth-decay 1"})
        EXPECT_EQ(convoy_alone(arguments).err.find("did you mean"), std::string::npos) << arguments;
}

TEST(ForeignOptions, InARecipeTheLineIsNamed) {
    const TempDir dir;
    write_file(dir.path("theirs.cfg"), "epochs = 2\nworld_size = 2\n");
    EXPECT_EQ("", problem_of_error(Exit::usage, {"theirs.cfg:2: world_size: ", "mpirun -np N"},
                                   [&] { parse_train_options({"--config", dir.path("theirs.cfg")}); }));
}

TEST(ForeignOptions, OneThatIsOursButForItsDashesIsSaidSo) {
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--log_interval", "did you mean --log-interval?"},
                                   [] { parse_train_options({"--data", "x", "--log_interval", "4"}); }));
}

TEST(ForeignOptions, EveryCommandKnowsThem) {
    for (const char* command : {"train", "bench", "evaluate", "comm-test", "info", "verify", "report"})
        EXPECT_EQ("", refusal(convoy_alone(std::string(command) + " --world-size 2"), Exit::usage,
                              {"--world-size: the launcher gives ranks: mpirun -np N"}))
            << command;
}

}  // namespace
}  // namespace convoy::test
