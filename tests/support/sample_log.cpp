#include "tests/support/sample_log.h"

#include <algorithm>
#include <cstdio>
#include <regex>
#include <sstream>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

/// Pattern of a sample's line: the expression that a log's line must match, and the placeholders in
/// order.
struct Pattern {
    std::regex line;
    std::vector<std::string> numbers;
};

Pattern pattern_of(const std::string& sample) {
    static const std::regex placeholder("%[0-9]*(\\.[0-9]+)?[dfet]"), special(R"([.^$|()\[\]{}*+?\\])");
    const auto literal = [](const std::string& text) { return std::regex_replace(text, special, "\\$&"); };
    Pattern p;
    std::string line, rest = sample;
    for (std::smatch found; std::regex_search(rest, found, placeholder); rest = found.suffix()) {
        p.numbers.push_back(found.str());
        line += literal(found.prefix()) + (p.numbers.back() == "%t" ? R"(([0-9]:[0-9]{2}:[0-9]{2}\.[0-9]{6}))"
                                                                    : R"(( *-?(?:nan|[0-9][0-9.e+-]*)))");
    }
    p.line = std::regex(line + literal(rest));
    return p;
}

double seconds_of_timedelta(const std::string& text) {
    int hours = 0, minutes = 0;
    double seconds = 0;
    std::sscanf(text.c_str(), "%d:%d:%lf", &hours, &minutes, &seconds);
    return hours * 3600 + minutes * 60 + seconds;
}

/// Returns true if printf would have written `text`.
bool is_printed_as(const std::string& placeholder, const std::string& text) {
    char printed[64];
    if (placeholder.back() == 'd')
        std::snprintf(printed, sizeof printed, placeholder.c_str(), std::atoi(text.c_str()));
    else
        std::snprintf(printed, sizeof printed, placeholder.c_str(), std::atof(text.c_str()));
    return text == printed;
}

}  // namespace

std::vector<std::string> lines_of(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) {
        if (line.ends_with('\r')) line.pop_back();  // comes from mpirun's pseudo-terminal
        lines.push_back(line);
    }
    return lines;
}

std::vector<std::string> progress_lines_of(const std::string& out) {
    static const std::regex plan("ranks? [0-9-]+ +.*: .* on .*"), life("(training|evaluation|start): .*");
    std::vector<std::string> lines;
    bool planned = false;
    for (const std::string& line : lines_of(out)) {
        if (line.starts_with("done: ") || line.starts_with("stopped by ")) break;
        if (planned && !std::regex_match(line, life)) lines.push_back(line);
        planned = planned || std::regex_match(line, plan);
        if (std::regex_match(line, plan)) lines.clear();
    }
    return lines;
}

Compared compare_with_sample(const std::vector<std::string>& log, const std::string& sample_file) {
    const std::vector<std::string> sample = lines_of(read_file(sample_file));
    Compared result;
    const auto wrong = [&](size_t line, const std::string& what) {
        result.problem = sample_file + ":" + std::to_string(line + 1) + ": " + what;
        return result;
    };
    for (size_t i = 0; i < std::max(log.size(), sample.size()); ++i) {
        if (i >= log.size()) return wrong(i, "the log ends before '" + sample[i] + "'");
        if (i >= sample.size()) return wrong(i, "the log has more: '" + log[i] + "'");
        const Pattern pattern = pattern_of(sample[i]);
        std::smatch found;
        if (!std::regex_match(log[i], found, pattern.line)) return wrong(i, "'" + sample[i] + "' is '" + log[i] + "'");
        result.numbers.emplace_back();
        for (size_t n = 0; n < pattern.numbers.size(); ++n) {
            const std::string text = found[n + 1], &as = pattern.numbers[n];
            if (as != "%t" && !is_printed_as(as, text)) return wrong(i, "'" + text + "' is no " + as + ": " + log[i]);
            result.numbers.back().push_back(as == "%t" ? seconds_of_timedelta(text) : std::atof(text.c_str()));
        }
    }
    return result;
}

std::string problem_of_toy_sums(const std::string& out) {
    std::vector<std::string> lines = lines_of(out);
    const auto key = [](const std::string& line) {  // lines of two ranks come in any order
        int rank = -1, step = -1;
        std::sscanf(line.c_str(), "rank: %d, step: %d,", &rank, &step);
        return 2 * step + rank;
    };
    std::stable_sort(lines.begin(), lines.end(), [&](auto& a, auto& b) { return key(a) < key(b); });
    const Compared c = compare_with_sample(lines, "tests/runs/logs/toy.txt");
    if (!c.problem.empty()) return c.problem + "\n" + out;
    for (size_t i = 0; i < c.numbers.size(); i += 2) {
        const double first = c.numbers[i].at(0), second = c.numbers[i + 1].at(0);
        for (const size_t line : {i, i + 1}) {
            const double value = c.numbers[line].at(0), sum = c.numbers[line].at(1);
            if (value < 0 || value > 10) return "a value is not from 0 to 10: " + lines[line];
            if (sum != first + second) return "not the sum of both values: " + lines[line];
        }
    }
    return "";
}

}  // namespace convoy::test
