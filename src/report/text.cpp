// Output of `convoy report`: paragraphs, tables, CSV or JSON.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/quantile.h"
#include "base/shorten.h"
#include "base/table.h"
#include "base/text.h"
#include "report/summary.h"

namespace convoy {
namespace {

/// Formats a number; "-" if it is not finite. An impossible one, such as 1e308, gets
/// few digits, because a column is as wide as its longest cell.
std::string number(const char* pattern, double v, double factor = 1) {
    constexpr double most = 1e15;
    if (!std::isfinite(v * factor)) return "-";
    return formatted(std::abs(v * factor) < most ? ("%" + std::string(pattern)).c_str() : "%.3g", v * factor);
}

/// Describes the rank that computes longest, compared with the median rank; empty for one rank.
std::string straggler(const RunSummary& s) {
    if (s.of_ranks.size() < 2) return "";
    std::vector<double> compute;
    for (const RankTotals& r : s.of_ranks) compute.push_back(r.compute);
    const auto slowest =
        std::max_element(s.of_ranks.begin(), s.of_ranks.end(),
                         [](const RankTotals& a, const RankTotals& b) { return a.compute < b.compute; });
    const double usual = median(compute);
    if (!(usual > 0)) return "";
    return formatted("rank %lld on %s computes longest, %.1f %% longer than the median rank", (long long)slowest->rank,
                     slowest->host.c_str(), 100 * (slowest->compute / usual - 1));
}

TextTable rank_table(const RunSummary& s) {
    TextTable table{{"rank", "host", "device", "threads", "data wait (s)", "compute (s)", "collective wait (s)",
                     "utilisation (%)", "hottest (°C)"},
                    {},
                    3};
    for (const RankTotals& r : s.of_ranks) {
        std::string rank = std::to_string(r.rank);
        if (r.logical_ranks > 1)
            rank += formatted(" as %lld-%lld", (long long)r.first_logical_rank,
                              (long long)(r.first_logical_rank + r.logical_ranks - 1));
        table.rows.push_back({rank, r.host, r.device, std::to_string(r.threads), number(".2f", r.data),
                              number(".2f", r.compute), number(".2f", r.wait), number(".1f", r.utilisation, 100),
                              number(".0f", r.celsius)});
    }
    return table;
}

TextTable event_table(const RunSummary& s) {
    TextTable table{{"time (UTC)", "step", "event", "message"}, {}, 4};
    for (const EventRow& e : s.events) table.rows.push_back({e.iso_time, std::to_string(e.step), e.kind, e.message});
    return table;
}

/// Returns the run and the published trainings beside it.
TextTable published_table(const RunSummary& s) {
    TextTable table{{"beside", "nodes-ranks", "global batch", "step (ms)", "epoch (s)", "images/s", "utilisation"}, {}};
    table.rows.push_back({"this run", formatted("%lld-%lld", (long long)s.hosts, (long long)s.ranks),
                          std::to_string(s.global_batch), number(".1f", s.step_seconds, 1e3),
                          number(".2f", s.epoch_seconds), number(".1f", s.images_per_second), "see above"});
    for (const PublishedRun& p : s.published)
        table.rows.push_back({p.source, formatted("%lld-%lld", (long long)p.nodes, (long long)p.gpus),
                              std::to_string(p.global_batch), number(".1f", p.step_seconds, 1e3),
                              number(".0f", p.epoch_seconds), number(".1f", p.images_per_second()), p.utilisation});
    return table;
}

std::string indented(const std::string& text) {
    std::string out;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) out += "  " + line + "\n";
    return out;
}

/// Returns the line with images/s over wall time and, beside it, by the median step.
std::string rate_line(const RunSummary& s) {
    const std::string step = number(".1f", s.step_images_per_second) + " by the median step";
    if (!std::isfinite(s.images_per_second)) return "  images/s       - (no epoch was completed); " + step + "\n";
    return formatted("  images/s       %.1f (all ranks, %lld images in %.2f s); %s\n", s.images_per_second,
                     (long long)s.images, s.training_seconds, step.c_str());
}

std::string as_paragraph(const RunSummary& s) {
    if (!s.out_of_memory.empty()) return s.run + "\n  " + s.out_of_memory + "\n";
    std::string text = s.run + "\n";
    text += formatted("  model          %s, %s, images of %s; %lld rank%s on %lld host%s, global batch %lld\n",
                      s.model.c_str(), s.precision.c_str(), s.image_size.c_str(), (long long)s.ranks,
                      s.ranks == 1 ? "" : "s", (long long)s.hosts, s.hosts == 1 ? "" : "s", (long long)s.global_batch);
    text += formatted(
        "  training       %lld steps, %lld epochs of %s s (median), %.2f s in all, and %.2f s of evaluation\n",
        (long long)s.steps, (long long)s.epochs, number(".2f", s.epoch_seconds).c_str(), s.training_seconds,
        s.eval_seconds);
    if (std::isfinite(s.last_accuracy))
        text +=
            formatted("  test accuracy  %.2f %% after epoch %lld, the best %.2f %% after epoch %lld\n",
                      100 * s.last_accuracy, (long long)s.last_epoch, 100 * s.best_accuracy, (long long)s.best_epoch);
    text += rate_line(s);
    text += formatted("  step           %s ms: data wait %s, exposed communication %s (medians of rank 0)\n",
                      number(".3f", s.step_seconds, 1e3).c_str(), number(".3f", s.data_seconds, 1e3).c_str(),
                      number(".3f", s.comm_exposed_seconds, 1e3).c_str());
    if (const std::string who = straggler(s); !who.empty()) text += "  slowest        " + who + "\n";
    text += indented(as_text(rank_table(s)));
    if (!s.published.empty()) text += indented(as_text(published_table(s)));
    return s.events.empty() ? text : text + indented(as_text(event_table(s)));
}

/// Inserts a column for each option that differs between runs, behind the first `at` columns. Skips
/// options that have a column already. `unknown`: shown for runs that did not record the option.
/// Shortens texts, because the rows are as wide as the longest.
void insert_options(TextTable& table, const std::vector<RunSummary>& runs, size_t at, const std::string& unknown) {
    if (runs.empty()) return;
    const std::vector<std::string> columns = table.header;
    for (size_t o = 0; o < runs.front().differing.size(); ++o) {
        const std::string& option = runs.front().differing[o].first;
        const std::string title = shortened(option);
        const bool completed = option == "epochs";  // the column "epochs" shows completed epochs, not the option
        if (!completed && std::find(columns.begin(), columns.end(), option) != columns.end()) continue;
        const auto place = ptrdiff_t(at++);
        table.header.insert(table.header.begin() + place, completed ? "--epochs" : title);
        for (size_t i = 0; i < runs.size(); ++i) {
            const std::string& value = runs[i].differing.at(o).second;
            table.rows[i].insert(table.rows[i].begin() + place, value.empty() ? unknown : shortened(value));
        }
    }
}

/// Returns the short table of results, one row per run, that precedes the paragraphs.
TextTable comparison_table(const std::vector<RunSummary>& runs) {
    TextTable table{{"run", "best (%)", "accuracy (%)", "epochs", "training (s)", "images/s", "ranks"}, {}};
    for (const RunSummary& s : runs)
        table.rows.push_back({s.run, number(".2f", s.best_accuracy, 100), number(".2f", s.last_accuracy, 100),
                              std::to_string(s.epochs), number(".2f", s.training_seconds),
                              s.out_of_memory.empty() ? number(".1f", s.images_per_second) : "OOM",
                              std::to_string(s.ranks)});
    insert_options(table, runs, 1, "-");
    return table;
}

TextTable run_table(const std::vector<RunSummary>& runs, bool for_people) {
    TextTable table{{"run", "model", "precision", "ranks", "hosts", "global batch", "steps", "epochs", "training (s)",
                     "epoch (s)", "evaluation (s)", "images/s", "images/s (median step)", "accuracy (%)", "best (%)",
                     "step (ms)", "data wait (ms)", "exposed communication (ms)"},
                    {},
                    3};
    const auto value = [&](const char* pattern, double v, double factor = 1) {
        const std::string text = number(for_people ? pattern : "g", v, factor);
        return text == "-" && !for_people ? "" : text;
    };
    for (const RunSummary& s : runs)
        table.rows.push_back({s.run, s.model, s.precision, std::to_string(s.ranks), std::to_string(s.hosts),
                              std::to_string(s.global_batch), std::to_string(s.steps), std::to_string(s.epochs),
                              value(".2f", s.training_seconds), value(".2f", s.epoch_seconds),
                              value(".2f", s.eval_seconds),
                              s.out_of_memory.empty() ? value(".1f", s.images_per_second) : "OOM",
                              value(".1f", s.step_images_per_second), value(".2f", s.last_accuracy, 100),
                              value(".2f", s.best_accuracy, 100), value(".3f", s.step_seconds, 1e3),
                              value(".3f", s.data_seconds, 1e3), value(".3f", s.comm_exposed_seconds, 1e3)});
    insert_options(table, runs, table.left, for_people ? "-" : "");
    return table;
}

nlohmann::ordered_json as_object(const RunSummary& s) {
    nlohmann::ordered_json j = {{"run", s.run},
                                {"model", s.model},
                                {"precision", s.precision},
                                {"image_size", s.image_size},
                                {"ranks", s.ranks},
                                {"hosts", s.hosts},
                                {"global_batch", s.global_batch},
                                {"batch_per_rank", s.batch_per_rank},
                                {"out_of_memory", !s.out_of_memory.empty()},
                                {"steps", s.steps},
                                {"epochs", s.epochs},
                                {"training_seconds", s.training_seconds},
                                {"epoch_seconds", s.epoch_seconds},
                                {"eval_seconds", s.eval_seconds},
                                {"images", s.images},
                                {"images_per_second", s.images_per_second},
                                {"median_step_images_per_second", s.step_images_per_second},
                                {"accuracy", s.last_accuracy},
                                {"best_accuracy", s.best_accuracy},
                                {"best_epoch", s.best_epoch},
                                {"step_seconds", s.step_seconds},
                                {"data_seconds", s.data_seconds},
                                {"comm_exposed_seconds", s.comm_exposed_seconds}};
    j["options_that_differ"] = nlohmann::ordered_json::object();
    for (const auto& [option, value] : s.differing) j["options_that_differ"][option] = value;
    for (const PublishedRun& p : s.published)
        j["published"].push_back({{"source", p.source},
                                  {"nodes", p.nodes},
                                  {"gpus", p.gpus},
                                  {"global_batch", p.global_batch},
                                  {"step_seconds", p.step_seconds},
                                  {"epoch_images", p.epoch_images},
                                  {"epoch_seconds", p.epoch_seconds},
                                  {"images_per_second", p.images_per_second()},
                                  {"utilisation", p.utilisation}});
    j["ranks_seconds"] = nlohmann::ordered_json::array();
    for (const RankTotals& r : s.of_ranks)
        j["ranks_seconds"].push_back({{"rank", r.rank},
                                      {"host", r.host},
                                      {"device", r.device},
                                      {"threads", r.threads},
                                      {"first_logical_rank", r.first_logical_rank},
                                      {"logical_ranks", r.logical_ranks},
                                      {"data", r.data},
                                      {"compute", r.compute},
                                      {"collective_wait", r.wait},
                                      {"utilisation", r.utilisation},
                                      {"hottest_celsius", r.celsius}});
    j["events"] = nlohmann::ordered_json::array();
    for (const EventRow& e : s.events)
        j["events"].push_back({{"time", e.iso_time}, {"step", e.step}, {"event", e.kind}, {"message", e.message}});
    return j;
}

}  // namespace

std::string comparison_text(const std::vector<RunSummary>& runs) { return as_text(comparison_table(runs)); }

std::string summaries_as(const std::vector<RunSummary>& runs, Format format) {
    if (format == Format::csv) return as_csv(run_table(runs, false));
    std::string text;
    if (format == Format::json) {
        auto all = nlohmann::ordered_json::array();
        for (const RunSummary& s : runs) all.push_back(as_object(s));
        return all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }
    if (format == Format::text) {
        if (runs.size() > 1) text = comparison_text(runs);
        for (const RunSummary& s : runs) text += (text.empty() ? "" : "\n") + as_paragraph(s);
        return text;
    }
    text = as_markdown(run_table(runs, true));
    for (const RunSummary& s : runs) {
        if (!s.out_of_memory.empty()) continue;
        const std::string who = straggler(s);
        text += "\n### " + as_markdown_text(s.run) + "\n\n" + as_markdown(rank_table(s)) + "\n" +
                (who.empty() ? "" : as_markdown_text(who) + "\n\n") +
                (s.published.empty() ? "" : as_markdown(published_table(s)) + "\n") +
                (s.events.empty() ? "" : as_markdown(event_table(s)));
    }
    return text;
}

}  // namespace convoy
