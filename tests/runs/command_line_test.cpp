// Strict options: the message names a mistyped option and the nearest one that exists. The command
// line overrides a config file.
#include "cli/command_line.h"

#include <gtest/gtest.h>

#include "base/version.h"
#include "cli/commands.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace po = boost::program_options;

po::options_description options() {
    po::options_description description("options");
    auto add = description.add_options();
    add("batch-size", po::value<int64_t>()->default_value(512), "images a step");
    add("learning-rate", po::value<double>()->default_value(0.1), "peak learning rate");
    add("data", po::value<std::string>(), "folder of the data set");
    add("from", po::value<std::vector<std::string>>()->multitoken(), "runs");
    add("run", po::value<std::vector<std::string>>(), "a run");
    add("freeze", po::value<std::string>()->composing()->default_value("none"), "names separated by commas");
    add("resume", po::bool_switch(), "go on from the newest checkpoint");
    add("config", po::value<std::string>(), "file of key = value lines");
    return description;
}

std::string problem(const std::vector<std::string>& args, const std::vector<std::string>& words,
                    Exit code = Exit::usage) {
    return problem_of_error(code, words, [&] { parse_with_config(options(), options(), args); });
}

TEST(CommandLine, TheVersionIsThatOfTheCitation) {
    EXPECT_NE(read_file("CITATION.cff").find(std::string("\nversion: ") + version + "\n"), std::string::npos);
}

TEST(CommandLine, NamesTheMistake) {
    EXPECT_EQ("", problem({"--bacth-size", "4"}, {"--bacth-size", "did you mean --batch-size?"}));
    EXPECT_EQ("", problem({"--batch", "4"}, {"--batch:", "did you mean --batch-size?"}));
    EXPECT_EQ("", problem({"--zebra", "4"}, {"--zebra", "see --help"}));
    EXPECT_EQ("", problem({"--batch-size", "4x"}, {"--batch-size", "'4x'", "whole number", "images a step"}));
    EXPECT_EQ("", problem({"--learning-rate=fast"}, {"--learning-rate", "'fast'", "a number"}));
    EXPECT_EQ("", problem({"--batch-size"}, {"--batch-size", "missing"}));
    EXPECT_EQ("", problem({"--batch-size", "--resume"}, {"--batch-size", "missing"}));
    EXPECT_EQ("", problem({"--data", "--batch-size=4"}, {"--data", "missing"}));
    EXPECT_EQ("", problem({"--data="}, {"--data", "missing"}));
    EXPECT_EQ("", problem({"--data", ""}, {"--data", "missing"}));
    EXPECT_EQ("", problem({"--resume=yes"}, {"--resume", "switch"}));
    EXPECT_EQ("", problem({"stray"}, {"'stray'"}));
    EXPECT_EQ("", problem({"--from", "a", "", "b"}, {"--from", "missing"}));
    po::positional_options_description positional;
    positional.add("data", 1);
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--data", "missing"}, [&] { parse(options(), {""}, positional); }));
}

TEST(CommandLine, TheLastOfTwoOptionsWins) {
    const auto values = [](const std::vector<std::string>& args) {
        return parse_with_config(options(), options(), args).values;
    };
    EXPECT_EQ(values({"--data", "a", "--batch-size", "1", "--data=b"})["data"].as<std::string>(), "b");
    EXPECT_EQ(values({"--batch-size=1", "--batch-size", "2", "--batch-size=3"})["batch-size"].as<int64_t>(), 3);
    EXPECT_TRUE(values({"--resume", "--resume"})["resume"].as<bool>());
    EXPECT_EQ(values({"--from", "a", "b", "--from", "c"})["from"].as<std::vector<std::string>>(),
              (std::vector<std::string>{"a", "b", "c"}))
        << "lists add up";
    EXPECT_EQ(values({"--run", "a", "--run=b"})["run"].as<std::vector<std::string>>(),
              (std::vector<std::string>{"a", "b"}));
    const auto frozen = [&](const std::vector<std::string>& args) { return values(args)["freeze"].as<std::string>(); };
    EXPECT_EQ(frozen({"--freeze", "a,b", "--data", "x", "--freeze=c", "--freeze", "d"}), "a,b,c,d");
    EXPECT_EQ(frozen({"--freeze", "a", "--freeze", "none"}), "none");
    EXPECT_EQ(frozen({"--freeze", "a", "--freeze", "none", "--freeze", "b", "--freeze", "c"}), "b,c");
    EXPECT_EQ("", problem({"--batch-size", "many", "--batch-size", ""}, {"--batch-size", "missing"}));
    po::positional_options_description positional;
    positional.add("data", 1);
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--data", "more than once"},
                                   [&] { parse(options(), {"a", "--data", "b"}, positional); }))
        << "a plain argument is no option";
}

TEST(CommandLine, ConfigFileLosesToOptions) {
    const TempDir dir;
    const std::string file = dir.path("run.cfg");
    write_file(file, "# a recipe\nbatch-size = 64   # images\n\nlearning-rate=0.5\nresume = true\nfreeze = a,b\n");
    const ConfiguredValues configured =
        parse_with_config(options(), options(), {"--config", file, "--batch-size", "128", "--freeze", "c"});
    const po::variables_map& values = configured.values;
    EXPECT_EQ(values["freeze"].as<std::string>(), "c") << "the command line's list replaces the file's";
    EXPECT_FALSE(configured.from_file.contains("freeze"));
    EXPECT_EQ(values["batch-size"].as<int64_t>(), 128);
    EXPECT_EQ(values["learning-rate"].as<double>(), 0.5);
    EXPECT_FALSE(values["learning-rate"].defaulted());
    EXPECT_TRUE(values["resume"].as<bool>());
}

TEST(CommandLine, ConfigFileErrorsNameTheLine) {
    const TempDir dir;
    const std::string file = dir.path("run.cfg");
    const auto with = [&](const std::string& text, const std::vector<std::string>& words) {
        write_file(file, text);
        return problem({"--config", file, "--batch-size", "2"}, words);
    };
    EXPECT_EQ("", with("\nlearning_rate = 1\n", {"run.cfg:2:", "learning_rate", "did you mean learning-rate?"}));
    EXPECT_EQ("", with("batch-size = many\n", {"run.cfg:1:", "batch-size", "'many'", "whole number"}));
    EXPECT_EQ("", with("batch-size\n", {"run.cfg:1:", "key = value"}));
    EXPECT_EQ("", with("batch-size =\n", {"run.cfg:1:", "missing"}));
    EXPECT_EQ("", with("data = a\ndata = b\n", {"run.cfg:2:", "more than once"}));
    EXPECT_EQ("", with("config = other.cfg\n", {"run.cfg:1:", "no key 'config'"}));
    EXPECT_EQ("", problem({"--config", dir.path("none.cfg")}, {"none.cfg", "cannot be read"}, Exit::bad_input));
    EXPECT_EQ("", problem({"--config", dir.path()}, {"cannot be read"}, Exit::bad_input));
}

TEST(CommandLine, SubcommandsAreStrict) {
    EXPECT_EQ("", problem_of_error(Exit::usage, {"did you mean cifar10?"}, [] { convert({"cifar"}); }));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"did you mean --from?"}, [] { convert({"mnist", "--form", "x"}); }));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--to", "required"}, [] { convert({"mnist", "--from", "x"}); }));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--size", "'8x8'", "HxWxC"}, [] {
                  convert({"synthetic", "--images", "9", "--size", "8x8", "--to", "/nonexistent/x"});
              }));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"'b'"}, [] { verify({"a", "b"}); }));
    EXPECT_EQ("",
              problem_of_error(Exit::bad_input, {"/nonexistent", "not a folder"}, [] { verify({"/nonexistent"}); }));
}

}  // namespace
}  // namespace convoy::test
