// The text of -h and --help: every command, at several widths. runs/help_test.cpp starts the
// program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <regex>
#include <sstream>

#include "cli/commands.h"
#include "cli/convert_options.h"
#include "cli/predict_options.h"
#include "cli/sweep_spec.h"
#include "cli/train_options.h"
#include "tests/support/cluster.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {
namespace po = boost::program_options;
using Words = std::vector<std::string>;

const Words commands = {"train",
                        "sweep",
                        "evaluate",
                        "classify",
                        "export",
                        "import",
                        "bench",
                        "demo",
                        "comm-test",
                        "info",
                        "verify",
                        "report",
                        "plot",
                        "accept",
                        "predict",
                        "convert",
                        "convert imagefolder",
                        "convert cifar10",
                        "convert cifar100",
                        "convert mnist",
                        "convert synthetic"};

CommandHelp help_of_command(const std::string& command) {
    static const std::map<std::string, OptionGroups (*)()> options = {
        {"train", options_of_train},      {"evaluate", options_of_evaluate},   {"bench", options_of_bench},
        {"demo", options_of_demo},        {"comm-test", options_of_comm_test}, {"info", options_of_info},
        {"verify", options_of_verify},    {"report", options_of_report},       {"plot", options_of_plot},
        {"predict", options_of_predict},  {"export", options_of_export},       {"import", options_of_import},
        {"convert", options_of_convert},  {"sweep", options_of_sweep},         {"accept", options_of_accept},
        {"classify", options_of_classify}};
    const std::string name = command.substr(0, command.find(' '));
    CommandHelp help{command, *screen_of(command), options.at(name)()};
    if (command != name)
        std::erase_if(help.groups, [&](const OptionGroup& g) { return g.heading != command.substr(name.size() + 1); });
    return help;
}

Words lines_of(const std::string& text) {
    Words lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

int width(const std::string& line) {
    return int(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

int widest(const std::string& text) {
    int most = 0;
    for (const std::string& line : lines_of(text)) most = std::max(most, width(line));
    return most;
}

/// Lines of `text` on which the option `name` begins.
int entries(const std::string& text, const std::string& name) {
    const Words lines = lines_of(text);
    return int(std::count_if(lines.begin(), lines.end(), [&](const std::string& line) {
        return line == "  --" + name || line.starts_with("  --" + name + " ");
    }));
}

/// The entry of an option, with the lines that continue it.
std::string entry(const std::string& text, const std::string& name) {
    std::string found;
    for (const std::string& line : lines_of(text)) {
        if (!found.empty() && !line.starts_with("      ")) break;
        if (!found.empty() || line.starts_with("  --" + name + " ")) found += line + "\n";
    }
    return found;
}

/// The command lines of the examples: without mpirun, each as the words after "convoy".
std::vector<Words> examples_of(const HelpScreen& screen) {
    std::string text;
    for (const std::string& example : screen.examples)
        text += example.ends_with("\\") ? example.substr(0, example.size() - 1) : example + "\n";
    std::vector<Words> all;
    for (const std::string& line : lines_of(std::regex_replace(text, std::regex(" \\| "), "\n"))) {
        std::istringstream in(std::regex_replace(line, std::regex("^mpirun -np [0-9]+ "), ""));
        Words words;
        for (std::string word; in >> word;) words.push_back(word);
        EXPECT_EQ(words.at(0), "convoy") << line;
        all.emplace_back(words.begin() + 1, words.end());
    }
    return all;
}

/// Parses what follows "convoy", as the command does before it reads a file.
void parse_command(const Words& words) {
    const bool kind = words.at(0) == "convert";
    const CommandHelp help = help_of_command(words.at(0) + (kind ? " " + words.at(1) : ""));
    const Words args(words.begin() + (kind ? 2 : 1), words.end());
    if (help.command == "train")  // what is not given is in the run that is continued
        return void(parse_train_options(args, {.recorded = {.path = "x", .options = "data = x\nbatch-size = 8\n"}}));
    if (help.command == "sweep") return void(parse_sweep(args, "x"));
    if (help.command == "predict") return void(parse_predict(args));
    if (help.command == "convert imagefolder") return void(parse_image_options(args));
    po::options_description options;
    for (const OptionGroup& group : help.groups)
        for (const auto& option : group.options) options.add(option);
    options.add_options()("RUN", po::value<Words>());
    const auto positional = po::positional_options_description().add(help.command == "verify" ? "dir" : "RUN", -1);
    constexpr int strict = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::variables_map values;
    po::store(po::command_line_parser(args).options(options).positional(positional).style(strict).run(), values);
}

TEST(HelpText, OfEveryCommandFitsAScreen) {
    for (const std::string& command : commands) {
        const std::string text = short_help(help_of_command(command));
        EXPECT_TRUE(text.starts_with("usage: convoy " + command + " ")) << text;
        EXPECT_LE(lines_of(text).size(), 24u) << text;
        EXPECT_LE(widest(text), 80) << text;
        EXPECT_EQ(text.find("\n          "), std::string::npos) << "an option takes more than a line: " << text;
        EXPECT_NE(lines_of(text).back().find("convoy " + command + " --help"), std::string::npos) << text;
        const size_t examples = examples_of(*screen_of(command)).size();
        EXPECT_GE(examples, 2u) << command;
        EXPECT_LE(examples, 4u) << command;
    }
}

TEST(HelpText, OfTheScreenOfTrainSaysThatThereAreAudits) {
    const std::string text = short_help(help_of_command("train"));
    EXPECT_NE(text.find("\n  --audit 1/N "), std::string::npos) << text;
}

TEST(HelpText, OfAScreenNamesOptionsThatThereAre) {
    const std::set<std::string> words = {"PATH",        "RUN...",  "OPTION=VALUE,...", "DIR",   "IMAGE",
                                         "imagefolder", "cifar10", "cifar100",         "mnist", "synthetic"};
    for (const std::string& command : commands) {
        const CommandHelp help = help_of_command(command);
        const std::string all = long_help(help, 120);
        for (const auto& [name, unused] : help.screen.often)
            EXPECT_TRUE(words.contains(name) || entries(all, name) > 0) << command << ": " << name;
        for (const std::set<std::string>& names : help.screen.required)
            for (const std::string& name : names) EXPECT_GT(entries(all, name), 0) << command << ": " << name;
    }
}

TEST(HelpText, HasEveryOptionOnceAtAnyWidth) {
    for (const std::string& command : commands) {
        const CommandHelp help = help_of_command(command);
        for (const int columns : {80, 81, 97, 100, 120}) {
            const std::string text = long_help(help, columns);
            EXPECT_LE(widest(text), columns) << text;
            EXPECT_EQ(text.find("(="), std::string::npos) << text;
            EXPECT_EQ(text.find("[="), std::string::npos) << text;
            std::map<std::string, int> expected;
            for (const OptionGroup& group : help.groups)
                for (const auto& option : group.options) ++expected[option->long_name()];
            for (const auto& [name, times] : expected) EXPECT_EQ(entries(text, name), times) << command << ": " << name;
        }
    }
}

// The shortest text that says it: most options take one line of a wide terminal.
TEST(HelpText, TakesFewerLinesWhereThereIsRoom) {
    const CommandHelp train = help_of_command("train");
    size_t options = 0;
    for (const OptionGroup& group : train.groups) options += group.options.size();
    const size_t wide = lines_of(long_help(train, 120)).size(), narrow = lines_of(long_help(train, 80)).size();
    EXPECT_LT(wide, narrow);
    EXPECT_LT(wide, options * 2);
    EXPECT_LT(narrow, options * 3);
}

TEST(HelpText, NamesADefaultWhereThereIsOneAndWhatIsRequired) {
    const std::string train = long_help(help_of_command("train"), 120);
    EXPECT_NE(entry(train, "momentum").find("(default 0.9)"), std::string::npos);
    EXPECT_NE(entry(train, "checkpoint-every").find("(default 10m)"), std::string::npos);
    EXPECT_NE(entry(train, "data").find("(required)"), std::string::npos);
    EXPECT_NE(entry(train, "batch-size").find("(default 32)"), std::string::npos);
    const std::string bench = long_help(help_of_command("bench"), 120);
    EXPECT_NE(entry(bench, "batch-size").find("(required, or --batch-per-rank)"), std::string::npos);
    for (const char* name : {"overwrite", "flip", "data", "batch-size", "mean", "chip"})
        EXPECT_EQ(entry(train, name).find("default 0"), std::string::npos) << entry(train, name);
    const std::string demo = long_help(help_of_command("demo"), 120);
    EXPECT_NE(entry(demo, "batch-size").find("(default 10)"), std::string::npos);
    EXPECT_EQ(entry(demo, "batch-per-rank").find("default"), std::string::npos);
    EXPECT_NE(entry(long_help(help_of_command("convert mnist"), 80), "shards").find("(default 5)"), std::string::npos);
}

TEST(HelpText, OfATopicIsAGroupOrAnOption) {
    const CommandHelp train = help_of_command("train");
    const std::string checkpoints = help_on(train, "checkpoints", 100);
    EXPECT_EQ(entries(checkpoints, "keep"), 1) << checkpoints;
    EXPECT_EQ(entries(checkpoints, "lr"), 0) << checkpoints;
    const std::string lr = help_on(train, "lr", 100);
    EXPECT_EQ(entries(lr, "lr"), 1) << lr;
    EXPECT_EQ(entries(lr, "momentum"), 0) << lr;
    EXPECT_EQ(entries(help_on(train, "data", 100), "model"), 1) << "the group comes before the option of its name";
    EXPECT_EQ(entries(help_on(train, "--data", 100), "model"), 0);
    EXPECT_EQ(entries(help_on(help_of_command("convert"), "mnist", 100), "class-names"), 1);
}

TEST(HelpText, OfAnUnknownTopicSaysWhichThereAre) {
    const auto of = [](const char* command, const char* topic) {
        return [=] { help_on(help_of_command(command), topic, 80); };
    };
    EXPECT_EQ(
        "", problem_of_error(Exit::usage, {"zebra", "convoy train", "checkpoints", "schedule"}, of("train", "zebra")));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"did you mean momentum?"}, of("train", "momentun")));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"did you mean checkpoints?"}, of("train", "checkpoint")));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"zebra", "model-file", "tta"}, of("evaluate", "zebra")));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"zebra", "mnist"}, of("convert", "zebra")));
    for (const char* topic : {"-", "--", "and", "--checkpoints", "Data"})
        EXPECT_EQ("", problem_of_error(Exit::usage, {topic, "no such topic"}, of("train", topic)));
}

TEST(HelpText, IsAskedForAnywhereAndWithATopic) {
    const std::vector<std::pair<Words, std::string>> cases = {{{"-h"}, "short"},
                                                              {{"--help"}, "all"},
                                                              {{"--epochs", "3", "-h"}, "short"},
                                                              {{"--help", "lr"}, "all lr"},
                                                              {{"--help=lr"}, "all lr"},
                                                              {{"--help", "--lr"}, "all --lr"},
                                                              {{"--help", "--data", "x"}, "all"},
                                                              {{"-h", "--data", "x"}, "short"},
                                                              {{"-h", "lr", "--data"}, "short lr"},
                                                              {{"--data", "--help"}, "all"},
                                                              {{"--data", "x"}, "none"},
                                                              {{"--helpless"}, "none"},
                                                              {{}, "none"}};
    for (const auto& [args, expected] : cases) {
        const std::optional<HelpRequest> request = help_request(args);
        std::string seen = !request ? "none" : request->all ? "all" : "short";
        if (request && !request->topic.empty()) seen += " " + request->topic;
        EXPECT_EQ(seen, expected) << testing::PrintToString(args);
    }
}

TEST(HelpText, HasExamplesThatTheCommandsTake) {
    for (const std::string& command : commands)
        for (const Words& words : examples_of(*screen_of(command)))
            EXPECT_NO_THROW(parse_command(words)) << command << ": " << testing::PrintToString(words);
    EXPECT_THROW(parse_command({"train", "--data", "x", "--batch-sise", "4"}), Error);
    EXPECT_ANY_THROW(parse_command({"evaluate", "--model", "x"}));
}

TEST(HelpText, MarksAsRequiredWhatIsRefusedWithout) {
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--data"}, [] { parse_train_options({"--batch-size", "4"}); }));
    EXPECT_NO_THROW(parse_train_options({"--data", "x"}));
    for (const std::string missing : {"--model", "--batch-per-rank", "--cluster"}) {
        Words args;
        for (const auto& [name, value] :
             {std::pair("--model", "resnet18"), {"--batch-per-rank", "8"}, {"--cluster", "x"}})
            if (name != missing) args.insert(args.end(), {name, value});
        EXPECT_EQ("", problem_of_error(Exit::usage, {missing}, [&] { parse_predict(args); }));
    }
}

TEST(HelpText, OfPlotHasTheOptionsOfTheScript) {
    const std::string script = read_file("src/plot/plot.py"), help = long_help(help_of_command("plot"), 80);
    const std::regex option("add_argument\\(\"--([a-z-]+)\"");
    size_t found = 0;
    for (std::sregex_iterator at(script.begin(), script.end(), option), end; at != end; ++at, ++found)
        EXPECT_EQ(entries(help, (*at)[1]), 1) << (*at)[1];
    EXPECT_EQ(found, help_of_command("plot").groups.at(0).options.size());
}

// mpirun of OpenMPI 4.1 takes `--tune FILE` from any place of its command line, also from behind
// the program, and reads the file. Another user may have put one into the current folder.
TEST(HelpText, NamesNoOptionThatMpirunTakesForItself) {
    const TempDir dir;
    std::string words;
    for (const std::string& command : commands)
        for (const OptionGroup& group : help_of_command(command).groups)
            for (const auto& option : group.options) {
                write_file(dir.path("file-of-" + option->long_name()), "-x CONVOY_READ=" + option->long_name() + "\n");
                words += " --" + option->long_name() + " file-of-" + option->long_name();
            }
    const auto read_by_mpirun = [&](const std::string& behind_the_program) {
        const Finished f =
            run("cd " + dir.path() + " && " +
                with_limit("mpirun --oversubscribe -np 1 sh -c 'echo read: $CONVOY_READ' sh" + behind_the_program, 60));
        EXPECT_EQ("", failure(f));
        return f.out;
    };
    EXPECT_EQ(read_by_mpirun(words), "read:\n");
    write_file(dir.path("file-of-tune"), "-x CONVOY_READ=tune\n");
    if (read_by_mpirun(" --tune file-of-tune") == "read:\n") GTEST_SKIP() << "this mpirun reads none at all";
}

}  // namespace
}  // namespace convoy::test
