// convoy info --plans MODEL --run: runs two plans of each family on the GPU that is here. Each
// family runs in a separate process, because an engine that faults or hangs ends its process.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "backend/cuda_queries.h"
#include "backend/gpu/plan_list.h"
#include "backend/gpu/precisions.h"
#include "base/text.h"
#include "cli/child.h"
#include "cli/choices.h"
#include "cli/commands.h"
#include "cli/info_options.h"

namespace convoy {
namespace {

constexpr size_t plans_of_family = 2;

/// Returns the end of the lines that have the same family as line `first`.
size_t end_of_family(const std::vector<cuda::PlanSpec>& specs, size_t first) {
    size_t end = first;
    while (end < specs.size() && specs[end].family() == specs[first].family()) ++end;
    return end;
}

/// Returns the command that runs line `line`, counted from 1, and the rest of its family.
std::vector<std::string> command_of(const InfoOptions& o, Precision precision, size_t line) {
    std::vector<std::string> words = {"/proc/self/exe", "info"};
    const std::vector<std::pair<const char*, std::string>> options = {{"--plans", o.plans},
                                                                      {"--precision", name_of(precision)},
                                                                      {"--batch-per-rank", std::to_string(o.batch)},
                                                                      {"--image-size", o.size},
                                                                      {"--classes", std::to_string(o.classes)},
                                                                      {"--stem", o.stem}};
    for (const auto& [name, value] : options)
        if (!value.empty()) words.insert(words.end(), {name, value});
    words.push_back("--run=" + std::to_string(line));
    return words;
}

/// Returns a text that says why a process ended early; `said` is its error message.
std::string words_of(int code, const std::string& said) {
    if (code == 128 + SIGALRM) return "took longer than " + std::to_string(probe_seconds) + " s";
    if (code > 128) return std::string("ended its process: ") + strsignal(code - 128);
    return said.empty() ? "ended with code " + std::to_string(code) : said;
}

std::string text_of(int file) {
    std::string text(size_t(::lseek(file, 0, SEEK_END)), ' ');
    text.resize(size_t(std::max<ssize_t>(0, ::pread(file, text.data(), text.size(), 0))));
    return text;
}

/// Prints the lines that a process wrote, beginning with line `line`. For the line that it did not
/// finish, prints how it ended. Returns the next line to run.
size_t print_family(const std::vector<cuda::PlanSpec>& specs, size_t line, int code, const std::string& text) {
    const size_t end = end_of_family(specs, line);
    const std::string trying = "trying ", problem = "convoy: ";
    std::string engine, said;
    std::istringstream lines(text);
    for (std::string one; std::getline(lines, one);) {
        if (one.starts_with(trying)) {
            engine = one.substr(trying.size());
        } else if (one.starts_with(problem)) {
            said = one.substr(problem.size());
        } else {
            line += line < end && one.starts_with(specs[line].key() + " ");
            std::printf("%s\n", printable(one).c_str());
        }
    }
    if (line == end) return end;
    const std::string key = specs[line].key();
    engine = engine.starts_with(key + " = ") ? engine.substr(key.size() + 3) + " " : "";
    std::printf("%-76s %s\n", key.c_str(), printable(engine + words_of(code, said)).c_str());
    return line + 1;
}

int run_families(const InfoOptions& o, Precision precision, const std::vector<cuda::PlanSpec>& specs) {
    ChildSignals signals;
    bool right = true;
    for (size_t line = 0; line < specs.size();) {
        const int file = ::memfd_create("plans", MFD_CLOEXEC);
        if (file < 0) fail(Exit::usage, "--run: no file can be opened; see ulimit -n");
        const int code = signals.run(command_of(o, precision, line + 1), file);
        const std::string text = text_of(file);
        ::close(file);
        if (signals.received() != 0) return 128 + signals.received();
        right = right && code == 0;
        line = print_family(specs, line, code, text);
        std::fflush(stdout);
    }
    return right ? int(Exit::done) : 1;
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
    if (o.line == 0) return run_families(o, precision, specs);
    if (o.line > int64_t(specs.size()))
        fail(Exit::usage, formatted("--run=%d: there are %zu lines", int(o.line), specs.size()));
    const size_t first = size_t(o.line) - 1;
    const std::vector<cuda::PlanSpec> some(specs.begin() + std::ptrdiff_t(first),
                                           specs.begin() + std::ptrdiff_t(end_of_family(specs, first)));
    const bool right = probe_plans(some, [](const std::string& line) {
        std::printf("%s\n", line.c_str());
        std::fflush(stdout);
    });
    return right ? int(Exit::done) : 1;
}

}  // namespace convoy
