#include "report/measured_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json_shape.h"
#include "base/text.h"
#include "report/summary.h"

namespace convoy {
namespace {

constexpr size_t most_bytes = 4 << 20;
constexpr size_t most_rows = 1000;  // limit of a table's rows, because each is fitted

std::string text_of(const std::string& path, const std::string& advice) {
    return text_of_input(path, most_bytes, advice);
}

void refuse_other_model(const std::string& path, const std::string& found, const std::string& wanted) {
    if (found != wanted)
        fail(Exit::bad_input, path + ": measured " + (found.empty() ? "an unknown model" : found) + ", not " + wanted +
                                  "; " + (found.empty() ? "" : "give --model " + found + ", or ") + "leave it out");
}

/// Returns the standard deviation of the ranks' compute times over their mean; NaN for one rank.
double spread_of(const RunSummary& s) {
    double mean = 0, squares = 0;
    const double n = double(s.of_ranks.size());
    for (const RankTotals& r : s.of_ranks) mean += r.compute / n;
    for (const RankTotals& r : s.of_ranks) squares += (r.compute - mean) * (r.compute - mean) / (n - 1);
    return n < 2 || mean <= 0 ? NAN : std::sqrt(squares) / mean;
}

MeasuredFile of_run(const std::string& path, const std::string& model) {
    const RunSummary s = summarise(path);
    refuse_other_model(path, s.model, model);
    if (!could_be(s.image_size, s.classes))
        fail(Exit::bad_input, path + ": its image size or classes are impossible; leave it out of --from");
    if (!(s.step_seconds > 0) || s.ranks < 1 || s.hosts < 1 || s.batch_per_rank < 1)
        fail(Exit::bad_input, path + ": has no step whose time, batch and ranks are known; leave it out of --from");
    return {.steps = {{.nodes = int(s.hosts),
                       .ranks = int(s.ranks),
                       .batch = s.batch_per_rank,
                       .seconds = s.step_seconds,
                       .spread = spread_of(s),
                       .source = path}},
            .precision = s.precision,
            .image_size = s.image_size,
            .device = s.device,
            .classes = s.classes};
}

std::string last_line_of(const std::string& text) {
    std::istringstream in(text);
    std::string last;
    for (std::string line; std::getline(in, line);)
        if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
    return last;
}

/// Returns a whole number from 1 to 2^24, so that products of two fit; 0 for all else.
int64_t count_in(const nlohmann::json& of, const char* name) {
    const nlohmann::json& value = of.at(name);
    const double number = value.is_number_integer() ? value.get<double>() : 0;
    return number >= 1 && number <= 1 << 24 ? int64_t(number) : 0;
}

MeasuredFile of_benchmark(const std::string& path, const std::string& model) {
    const std::string advice = "give what 'convoy bench' prints as its last line";
    const std::string line = last_line_of(text_of(path, advice));
    if (!has_modest_shape(line)) fail(Exit::bad_input, path + ": is nested deeply, as no benchmark is; " + advice);
    const auto j = nlohmann::json::parse(line, nullptr, false);
    MeasuredStep s{.nodes = 0, .ranks = 0, .batch = 0, .source = path};
    MeasuredFile file;
    std::string found;
    try {
        found = j.at("bench").get<std::string>();
        s.nodes = int(count_in(j, "hosts"));
        s.ranks = int(count_in(j, "ranks"));
        s.batch = count_in(j, "batch_per_rank");
        s.seconds = j.at("step_seconds").get<double>();
        file.precision = printable(j.value("precision", ""));
        file.image_size = j.value("image_size", "");
        file.device = printable(j.value("device_kind", ""));
        file.classes = j.value("classes", int64_t(0));
    } catch (const nlohmann::json::exception&) {
        fail(Exit::bad_input, path + ": is no benchmark; " + advice);
    }
    refuse_other_model(path, found, model);
    if (!could_be(file.image_size, file.classes))
        fail(Exit::bad_input, path + ": its image_size or classes are impossible; " + advice);
    if (s.nodes < 1 || s.ranks < s.nodes || s.ranks % s.nodes != 0 || s.batch < 1 ||
        !(s.seconds > 1e-9 && s.seconds < 1e6))
        fail(Exit::bad_input, path + ": needs a step time, a batch, and hosts with equally many ranks; " + advice);
    file.steps.push_back(s);
    return file;
}

std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (const char c : line) {
        if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted)
            cells.emplace_back();
        else
            cells.back() += c;
    }
    for (std::string& cell : cells) cell = printable(trimmed(cell));
    return cells;
}

/// Finds columns by name.
class Columns {
public:
    Columns(std::string path, const std::string& header) : path_(std::move(path)), names_(cells_of(header)) {}

    std::optional<size_t> find(const std::string& name) const {
        const auto found = std::find(names_.begin(), names_.end(), name);
        if (found == names_.end()) return std::nullopt;
        return size_t(found - names_.begin());
    }
    size_t index(std::initializer_list<const char*> names) const {
        for (const char* name : names)
            if (const auto found = find(name)) return *found;
        fail(Exit::bad_input, path_ + ": has no column " + *names.begin() +
                                  "; its first line names nodes, gpus, batch_per_gpu and images_per_s");
    }
    size_t count() const { return names_.size(); }

private:
    std::string path_;
    std::vector<std::string> names_;
};

/// Returns a number within [low, high]; 0 for other text.
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

/// Returns a whole number of at least 1, written as "128" or "128.0"; 0 for other text.
int64_t whole_of(const std::string& text) {
    const double v = number_of(text, 1, 1 << 24);
    return std::trunc(v) == v ? int64_t(v) : 0;
}

/// A CSV table while it is read, row by row.
class Table {
public:
    Table(const std::string& path, const std::string& header, const std::string& model)
        : path_(path),
          wanted_(model),
          names_(path, header),
          nodes_(names_.index({"nodes", "hosts"})),
          ranks_(names_.index({"gpus", "ranks", "accelerators"})),
          batch_(names_.index({"batch_per_gpu", "batch_per_rank", "batch_per_accelerator", "batch"})),
          rate_(names_.index({"images_per_s", "images_per_second", "samples_per_second"})) {}

    void add(int number, const std::string& line) {
        const std::string place = path_ + ":" + std::to_string(number);
        if (file_.steps.size() == most_rows)
            fail(Exit::bad_input, formatted("%s: is row %zu, one too many; leave out rows that repeat others",
                                            place.c_str(), most_rows + 1));
        const std::vector<std::string> cells = cells_of(line);
        if (cells.size() < names_.count()) fail(Exit::bad_input, place + ": has fewer columns than the first line");
        for (const auto& [name, known] : {std::pair{"model", &model_}, {"precision", &file_.precision}}) {
            const auto at = names_.find(name);
            if (!at) continue;
            if (!file_.steps.empty() && cells[*at] != *known)
                fail(Exit::bad_input, place + ": " + name + " " + cells[*at] + ", but " + *known +
                                          " in the lines before; give a table of one kind");
            *known = cells[*at];
        }
        if (names_.find("model")) refuse_other_model(place, model_, wanted_);
        if (const auto at = names_.find("source"); at && cells[*at] == "predicted")
            fail(Exit::bad_input, place + ": is a prediction, not a measurement; leave it out");
        const int64_t nodes = whole_of(cells[nodes_]), ranks = whole_of(cells[ranks_]), batch = whole_of(cells[batch_]);
        const double rate = number_of(cells[rate_], 1e-9, 1e12);
        if (nodes < 1 || ranks < nodes || ranks % nodes != 0 || batch < 1 || rate <= 0)
            fail(Exit::bad_input,
                 place +
                     ": nodes, ranks and batch must be whole numbers from 1, nodes must have equally many ranks, "
                     "and images/s must be above 0; correct the row, or leave it out");
        file_.steps.push_back({.nodes = int(nodes),
                               .ranks = int(ranks),
                               .batch = batch,
                               .seconds = double(batch * ranks) / rate,
                               .source = place});
    }
    MeasuredFile file() && { return std::move(file_); }

private:
    const std::string path_, wanted_;
    const Columns names_;
    const size_t nodes_, ranks_, batch_, rate_;
    std::string model_;
    MeasuredFile file_;
};

MeasuredFile of_table(const std::string& path, const std::string& model) {
    std::istringstream in(text_of(path, "check --from"));
    std::optional<Table> table;
    MeasuredFile file;
    int number = 0;
    for (std::string line; std::getline(in, line);) {
        ++number;
        if (trimmed(line).empty() || line[0] == '#') continue;
        if (table)
            table->add(number, line);
        else
            table.emplace(path, line, model);
    }
    if (table) file = std::move(*table).file();
    if (file.steps.empty()) fail(Exit::bad_input, path + ": has no row; give one row per measured run");
    return file;
}

}  // namespace

bool could_be(const std::string& image_size, int64_t classes) {
    int h = 0, w = 0, c = 0, end = 0;
    const bool size = std::sscanf(image_size.c_str(), "%5dx%5dx%2d%n", &h, &w, &c, &end) == 3 &&
                      size_t(end) == image_size.size() && h > 0 && w > 0 && c > 0;
    return (image_size.empty() || size) && classes >= 0 && classes <= 1 << 20;
}

MeasuredFile read_measured_steps(const std::string& path, const std::string& model) {
    if (path.ends_with(".csv")) return of_table(path, model);
    if (path.ends_with(".json")) return of_benchmark(path, model);
    return of_run(path, model);
}

}  // namespace convoy
