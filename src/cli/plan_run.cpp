// convoy info --plans MODEL --run: runs two plans of each family on the GPU that is here. Each
// family runs in a separate process, because an engine that faults or hangs ends its process.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "backend/cuda_queries.h"
#include "backend/gpu/plan_list.h"
#include "backend/gpu/precisions.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "cli/choices.h"
#include "cli/commands.h"
#include "cli/info_options.h"

namespace convoy {
namespace {

constexpr size_t plans_of_family = 2;

/// Returns the end of the lines that are of the same family as line `first`.
size_t end_of_family(const std::vector<cuda::PlanSpec>& specs, size_t first) {
    size_t end = first;
    while (end < specs.size() && specs[end].family() == specs[first].family()) ++end;
    return end;
}

/// Returns the command that runs lines from `line` on, counted from 1.
std::string command_of(const InfoOptions& o, Precision precision, size_t line) {
    std::string text = "exec " + shell_word(std::filesystem::read_symlink("/proc/self/exe").string()) + " info";
    const std::vector<std::string> words = {"--plans",
                                            o.plans,
                                            "--precision",
                                            name_of(precision),
                                            "--batch-per-rank",
                                            std::to_string(o.batch),
                                            "--image-size",
                                            o.size,
                                            "--classes",
                                            std::to_string(o.classes),
                                            "--stem",
                                            o.stem,
                                            "--run=" + std::to_string(line)};
    for (size_t i = 0; i < words.size(); ++i)
        if (!words[i].empty() && (i + 1 == words.size() || !words[i | 1].empty())) text += " " + shell_word(words[i]);
    return text + " 2>&1";
}

std::string words_of(int status, const std::string& said) {
    if (WIFEXITED(status)) return said.empty() ? "ended with code " + std::to_string(WEXITSTATUS(status)) : said;
    if (WTERMSIG(status) == SIGALRM) return "took longer than " + std::to_string(probe_seconds) + " s";
    return std::string("ended its process: ") + strsignal(WTERMSIG(status));
}

/// Runs lines from `line` to the end of its family in another process. Prints a line for each one
/// that it finishes, and one for that in which it ended. Returns the next line to run; `right` is
/// cleared if a plan was not right.
size_t run_family(const std::string& command, const std::vector<cuda::PlanSpec>& specs, size_t line, bool& right) {
    const size_t end = end_of_family(specs, line);
    const std::string trying = "trying ", problem = "convoy: ";
    std::string engine, said;
    FILE* from = ::popen(command.c_str(), "re");
    if (!from) fail(Exit::usage, "--run: no process can be started; see ulimit -u");
    char* text = nullptr;
    size_t room = 0;
    for (ssize_t length; (length = ::getline(&text, &room, from)) > 0;) {
        const std::string one(text, size_t(length) - (text[length - 1] == '\n'));
        if (one.starts_with(trying)) {
            engine = one.substr(trying.size());
        } else if (one.starts_with(problem)) {
            said = one.substr(problem.size());
        } else {
            line += line < end && one.starts_with(specs[line].key() + " ");
            std::printf("%s\n", printable(one).c_str());
            std::fflush(stdout);
        }
    }
    std::free(text);
    const int status = ::pclose(from);
    right = right && status == 0;
    if (line == end) return end;
    const std::string key = specs[line].key();
    engine = engine.starts_with(key + " = ") ? engine.substr(key.size() + 3) + " " : "";
    std::printf("%-76s %s\n", key.c_str(), printable(engine + words_of(status, said)).c_str());
    std::fflush(stdout);
    return line + 1;
}

}  // namespace

bool runs_plans(const std::vector<std::string>& args) {
    return std::any_of(args.begin(), args.end(),
                       [](const std::string& word) { return word == "--run" || word.starts_with("--run="); });
}

int run_plans(const std::vector<std::string>& args) {
    const InfoOptions o = parse_info(args);
    const int capability = first_capability();
    Precision precision = cuda::usual_precision(capability);
    if (!o.precision.empty()) precision = choose("precision", o.precision, precision_choices());
    cuda::check_precision(precision, capability, "the GPU that is here");
    const Graph graph = graph_of(o, precision);
    const auto specs =
        cuda::first_of_families(cuda::plans_of(graph, int(o.batch), {.precision = precision}), plans_of_family);
    bool right = true;
    if (o.line > 0) {
        if (o.line > int64_t(specs.size()))
            fail(Exit::usage, formatted("--run=%d: there are %zu lines", int(o.line), specs.size()));
        const size_t first = size_t(o.line) - 1;
        const std::vector<cuda::PlanSpec> some(specs.begin() + std::ptrdiff_t(first),
                                               specs.begin() + std::ptrdiff_t(end_of_family(specs, first)));
        right = probe_plans(some, [](const std::string& line) {
            std::printf("%s\n", line.c_str());
            std::fflush(stdout);
        });
    } else {
        for (size_t line = 0; line < specs.size();)
            line = run_family(command_of(o, precision, line + 1), specs, line, right);
    }
    return right ? int(Exit::done) : 1;
}

}  // namespace convoy
