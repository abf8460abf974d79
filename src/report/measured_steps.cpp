#include "report/measured_steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/input_file.h"
#include "report/summary.h"

namespace convoy {
namespace {

constexpr size_t most_bytes = 4 << 20;

void refuse_other_model(const std::string& path, const std::string& found, const std::string& wanted) {
    if (found != wanted)
        fail(Exit::bad_input, path + ": measured " + (found.empty() ? "an unknown model" : found) + ", not " + wanted +
                                  "; give --model " + found + ", or leave it out");
}

/// Standard deviation over mean of what the ranks computed; NaN of fewer than two.
double spread_of(const RunSummary& s) {
    double mean = 0, squares = 0;
    const double n = double(s.of_ranks.size());
    for (const RankTotals& r : s.of_ranks) mean += r.compute / n;
    for (const RankTotals& r : s.of_ranks) squares += (r.compute - mean) * (r.compute - mean) / (n - 1);
    return n < 2 || mean <= 0 ? NAN : std::sqrt(squares) / mean;
}

MeasuredStep of_run(const std::string& path, const std::string& model) {
    const RunSummary s = summarise(path);
    refuse_other_model(path, s.model, model);
    if (!(s.step_seconds > 0) || s.ranks < 1 || s.hosts < 1 || s.batch_per_rank < 1)
        fail(Exit::bad_input, path + ": has no step whose time, batch and ranks are known; leave it out of --from");
    return {.nodes = int(s.hosts),
            .ranks = int(s.ranks),
            .batch = s.batch_per_rank,
            .seconds = s.step_seconds,
            .spread = spread_of(s),
            .source = path};
}

std::string last_line_of(const std::string& text) {
    std::istringstream in(text);
    std::string last;
    for (std::string line; std::getline(in, line);)
        if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
    return last;
}

MeasuredStep of_benchmark(const std::string& path, const std::string& model) {
    const std::string advice = "give what 'convoy bench' prints as its last line";
    const auto j = nlohmann::json::parse(last_line_of(text_of_input(path, most_bytes, advice)), nullptr, false);
    MeasuredStep s{.nodes = 0, .ranks = 0, .batch = 0, .source = path};
    std::string found;
    try {
        found = j.at("bench").get<std::string>();
        s.nodes = j.at("hosts").get<int>();
        s.ranks = j.at("ranks").get<int>();
        s.batch = j.at("batch_per_rank").get<int64_t>();
        s.seconds = j.at("step_seconds").get<double>();
    } catch (const nlohmann::json::exception&) {
        fail(Exit::bad_input, path + ": is no benchmark; " + advice);
    }
    refuse_other_model(path, found, model);
    if (s.nodes < 1 || s.ranks < s.nodes || s.batch < 1 || !(s.seconds > 0 && s.seconds < 1e6))
        fail(Exit::bad_input, path + ": has no step time, or not its ranks; " + advice);
    return s;
}

std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (const char c : line) {
        if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted)
            cells.emplace_back();
        else if (c != '\r')
            cells.back() += c;
    }
    return cells;
}

/// A table's columns, by their names.
class Columns {
public:
    Columns(const std::string& path, const std::string& header) : path_(path), names_(cells_of(header)) {}

    size_t index(std::initializer_list<const char*> names) const {
        for (const char* name : names)
            if (const auto found = std::find(names_.begin(), names_.end(), name); found != names_.end())
                return size_t(found - names_.begin());
        fail(Exit::bad_input, path_ + ": has no column " + *names.begin() +
                                  "; its first line names nodes, gpus, batch_per_gpu and images_per_s");
    }

private:
    const std::string path_;
    const std::vector<std::string> names_;
};

/// A number within [low, high]; 0: it is none.
double number_of(const std::string& text, double low, double high) {
    size_t used = 0;
    double v = 0;
    try {
        v = std::stod(text, &used);
    } catch (const std::exception&) {
        return 0;
    }
    return used == text.size() && v >= low && v <= high ? v : 0;
}

MeasuredStep of_row(const std::string& place, const std::vector<std::string>& cells,
                    const std::array<size_t, 4>& columns) {
    if (cells.size() <= *std::max_element(columns.begin(), columns.end()))
        fail(Exit::bad_input, place + ": has fewer columns than the first line");
    constexpr double most = 1 << 24;
    const double nodes = number_of(cells[columns[0]], 1, most), ranks = number_of(cells[columns[1]], 1, most),
                 batch = number_of(cells[columns[2]], 1, most), rate = number_of(cells[columns[3]], 1e-9, 1e12);
    if (nodes * ranks * batch * rate <= 0 || ranks < nodes || std::fmod(ranks, nodes) != 0)
        fail(Exit::bad_input, place +
                                  ": nodes, ranks and batch are whole numbers from 1, ranks fill nodes, and images/s "
                                  "are above 0; mend it, or leave it out");
    return {.nodes = int(nodes),
            .ranks = int(ranks),
            .batch = int64_t(batch),
            .seconds = std::floor(batch) * ranks / rate,
            .source = place};
}

std::vector<MeasuredStep> of_table(const std::string& path) {
    std::istringstream in(text_of_input(path, most_bytes, "check --from"));
    std::vector<MeasuredStep> steps;
    std::array<size_t, 4> columns{};
    bool named = false;
    int number = 0;
    for (std::string line; std::getline(in, line);) {
        ++number;
        if (line.find_first_not_of(" \t\r") == std::string::npos || line[0] == '#') continue;
        if (named) {
            steps.push_back(of_row(path + ":" + std::to_string(number), cells_of(line), columns));
            continue;
        }
        const Columns names(path, line);
        columns = {names.index({"nodes", "hosts"}), names.index({"gpus", "ranks", "accelerators"}),
                   names.index({"batch_per_gpu", "batch_per_rank", "batch_per_accelerator", "batch"}),
                   names.index({"images_per_s", "images_per_second", "samples_per_second"})};
        named = true;
    }
    if (steps.empty()) fail(Exit::bad_input, path + ": has no row; give one a measured run");
    return steps;
}

}  // namespace

std::vector<MeasuredStep> read_measured_steps(const std::string& path, const std::string& model) {
    if (path.ends_with(".csv")) return of_table(path);
    if (path.ends_with(".json")) return {of_benchmark(path, model)};
    return {of_run(path, model)};
}

}  // namespace convoy
