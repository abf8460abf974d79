#include "report/summary.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/input_file.h"
#include "base/json_shape.h"
#include "base/quantile.h"
#include "base/shorten.h"
#include "base/text.h"
#include "model/models.h"
#include "run/configuration.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

std::string text_of(const MetricsFile& file, const std::string& name) {
    const auto found = file.run.find(name);
    return found == file.run.end() ? "" : found->second;
}

/// Returns an attribute that is a whole number from 0 to 2^40, so that sums cannot overflow; 0 for
/// all else.
int64_t number_of(const MetricsFile& file, const std::string& name) {
    const long long value = std::atoll(text_of(file, name).c_str());
    return value >= 0 && value <= 1LL << 40 ? value : 0;
}

/// Returns the steps whose times are meaningful. Leaves out the first step of a training, which
/// includes one-time work. Benchmarks have left out their warm-up already.
std::vector<TrainRow> timed(const std::vector<TrainRow>& rows, bool bench) {
    std::vector<TrainRow> timed;
    for (size_t i = !bench && rows.size() > 1 ? 1 : 0; i < rows.size(); ++i)
        if (std::isfinite(rows[i].step_seconds) && rows[i].step_seconds > 0) timed.push_back(rows[i]);
    return timed;
}

double median_of(const std::vector<TrainRow>& rows, double TrainRow::* field) {
    std::vector<double> values;
    for (const TrainRow& r : rows)
        if (std::isfinite(r.*field)) values.push_back(r.*field);
    return median(values);
}

/// The sums of a rank over its rows.
struct RankSums {
    double data = 0, compute = 0, wait = 0;
    double busy = 0, sampled = 0, last_sample = NAN;  ///< seconds
    double celsius = NAN;

    void add(const RankEpochRow& r) {
        const auto known = [](double v) { return std::isfinite(v) ? v : 0; };
        data += known(r.data_seconds);
        compute += known(r.compute_seconds);
        wait += known(r.collective_wait_seconds);
    }
    /// A row is weighted by the seconds that it averages over: 1 in the first minute of a run, then
    /// 10.
    void add(const SystemRow& r) {
        const double since = r.time - last_sample, weight = since > 0 ? std::min(since, 10.0) : 1;
        last_sample = r.time;
        if (std::isfinite(r.utilisation)) {
            busy += weight * r.utilisation;
            sampled += weight;
        }
        celsius = std::fmax(celsius, r.temperature_celsius);  // fmax ignores a NaN
    }
};

/// Returns the sums by rank. Reads each row once, because a stranger's file may have any number of
/// ranks.
std::map<int64_t, RankSums> sums_of_ranks(const MetricsFile& file) {
    std::map<int64_t, RankSums> sums;
    for (const RankEpochRow& r : file.rows<RankEpochRow>()) sums[r.rank].add(r);
    for (const SystemRow& r : file.rows<SystemRow>()) sums[r.rank].add(r);
    return sums;
}

void add_ranks(RunSummary& s, const MetricsFile& file) {
    std::set<std::string> hosts;
    std::map<int64_t, RankSums> sums = sums_of_ranks(file);
    for (const RankRow& r : file.rows<RankRow>()) {
        const RankSums& of_rank = sums[r.rank];
        s.of_ranks.push_back({.rank = r.rank,
                              .threads = r.threads,
                              .first_logical_rank = r.first_logical_rank,
                              .logical_ranks = r.logical_ranks,
                              .host = r.host,
                              .device = r.device,
                              .data = of_rank.data,
                              .compute = of_rank.compute,
                              .wait = of_rank.wait,
                              .utilisation = of_rank.sampled > 0 ? of_rank.busy / of_rank.sampled : NAN,
                              .celsius = of_rank.celsius});
        hosts.insert(r.host);
    }
    s.ranks = int64_t(s.of_ranks.size());
    s.hosts = int64_t(hosts.size());
}

void add_epochs(RunSummary& s, const MetricsFile& file) {
    std::vector<double> epochs;
    for (const EpochRow& e : file.rows<EpochRow>()) {
        epochs.push_back(e.seconds);
        s.training_seconds += e.seconds;
        if (__builtin_add_overflow(s.images, e.images, &s.images))
            fail(Exit::bad_input, s.run + ": its /epochs has an impossible number of images; the file is damaged");
        s.epochs = std::max(s.epochs, e.epoch);
    }
    s.epoch_seconds = median(epochs);
    if (s.images > 0 && s.training_seconds > 0) s.images_per_second = double(s.images) / s.training_seconds;
}

/// Returns the size that the model sees of images "238x273x3". `option` is --image-size: a side
/// ("64"), or sides that grow ("160:0,192:10"), of which the last counts. Returns `images` if the
/// option has another form.
std::string seen_size(const std::string& images, const std::string& option) {
    const size_t last = option.rfind(',') + 1, channels = images.rfind('x');  // 0 without a comma
    const int side = std::atoi(option.c_str() + last);
    if (side < 1 || channels == std::string::npos || option.find('x') != std::string::npos) return images;
    return std::to_string(side) + "x" + std::to_string(side) + images.substr(channels);
}

/// Returns the stem that the option `stem` selects for a model and images "224x224x3". Empty if
/// that is not known, or if the model has no stems.
std::string stem_of_run(const std::string& model, const std::string& image_size, const std::string& stem) {
    const int height = std::atoi(image_size.c_str());
    return stem.empty() || height < 1 ? "" : stem_of({.name = model, .h = height, .stem = stem});
}

/// Copies the fields from the JSON of a file `oom`; returns false if it is damaged.
bool add_oom(RunSummary& s, const nlohmann::json& j) {
    bool sound = true;
    const auto count = [&](const char* name) {
        constexpr double most = 1 << 20;  // above any machine's; products of two still fit
        const auto found = j.find(name);
        if (found == j.end()) return int64_t(0);
        const bool fits = found->is_number_integer() && found->get<double>() >= 0 && found->get<double>() <= most;
        if (!fits) sound = false;
        return fits ? found->get<int64_t>() : 0;
    };
    try {
        s.model = j.value("model", "");
        s.precision = j.value("precision", "");
        s.image_size = j.value("image_size", "");
        s.stem = j.value("stem", "");
        s.classes = count("classes");
        s.device = j.value("device_kind", "");
        s.ranks = count("ranks");
        s.hosts = count("hosts");
        s.batch_per_rank = count("batch_per_rank");
        s.out_of_memory = j.value("message", "");
    } catch (const nlohmann::json::exception&) {
        return false;
    }
    return sound;
}

/// Makes all texts from files safe to print in all formats. Escapes line ends too, because they
/// would break a table. Shortens names, because the rows of a table are as wide as the longest.
void make_printable(RunSummary& s) {
    for (std::string* text : {&s.run, &s.out_of_memory}) *text = printable(*text);
    for (std::string* name : {&s.model, &s.precision, &s.image_size, &s.stem, &s.device})
        *name = shortened(printable(*name));
    for (RankTotals& r : s.of_ranks)
        for (std::string* name : {&r.host, &r.device}) *name = shortened(printable(*name));
    for (auto& [option, value] : s.options)
        for (std::string* text : {&option, &value}) *text = printable(*text);
    for (EventRow& e : s.events) {
        for (std::string* text : {&e.iso_time, &e.kind}) *text = shortened(printable(*text));
        e.message = printable(e.message);
    }
}

/// Reads hosts, ranks and batch from a folder name that contains "2n16g-b128".
void read_name(const std::string& name, RunSummary& s) {
    for (size_t at = 0; at < name.size(); ++at) {
        long long hosts, ranks, batch;
        if (std::isdigit(static_cast<unsigned char>(name[at])) &&
            std::sscanf(&name[at], "%6lldn%6lldg-b%9lld", &hosts, &ranks, &batch) == 3 && ranks > 0 && batch > 0) {
            s.hosts = hosts;
            s.ranks = ranks;
            s.batch_per_rank = batch;
            return;
        }
    }
}

/// Summarises a run that ran out of memory from its file `oom`. If that gives no ranks, the
/// folder's name may: "2n16g-b128-r3" (nodes, ranks of all nodes, batch, repetition). Otherwise
/// ranks and batch stay 0.
RunSummary without_memory(const std::string& run) {
    RunSummary s;
    s.run = run;
    const std::string path = run + "/oom", advice = "remove it, or measure again";
    const std::string text = text_of_input(path, 1 << 20, advice);
    if (!has_modest_shape(text)) fail(Exit::bad_input, path + ": is damaged; " + advice);
    const auto j = nlohmann::json::parse(text, nullptr, false);
    if (j.is_object() && !add_oom(s, j)) fail(Exit::bad_input, path + ": is damaged; " + advice);
    if (s.ranks < 1) read_name(fs::path(run).filename().string(), s);
    s.global_batch = s.batch_per_rank * s.ranks;
    if (s.out_of_memory.empty()) s.out_of_memory = "out of memory";
    make_printable(s);
    return s;
}

}  // namespace

RunSummary summarise(const std::string& given) {
    std::string run = given;
    while (run.size() > 1 && run.ends_with("/")) run.pop_back();
    std::error_code unseen;  // ignored, because read_metrics() reports why a file cannot be read
    if (fs::exists(run + "/oom", unseen)) return without_memory(run);
    const std::string path = fs::is_directory(run, unseen) ? run + "/metrics.h5" : run;
    if (fs::status(path, unseen).type() == fs::file_type::not_found)
        fail(Exit::bad_input, path + ": there is no such file; give the folder of a run, or its metrics.h5");
    const MetricsFile file = read_metrics(path);
    RunSummary s;
    s.run = run;
    s.model = text_of(file, "model");
    const std::string configuration = text_of(file, "configuration");
    constexpr size_t most_text = 1 << 18;  // Convoy records a few thousand bytes, and each row of a table repeats them
    if (configuration.size() > most_text)
        fail(Exit::bad_input, path + ": records options of more than 256 KiB; it is damaged");
    s.options = config_pairs(configuration);
    constexpr size_t most_options = 1000;  // Convoy has fewer than 150, and each is compared with all
    if (s.options.size() > most_options)
        fail(Exit::bad_input, path + ": records " + std::to_string(s.options.size()) + " options; it is damaged");
    s.image_size = seen_size(text_of(file, "image size"), config_value(configuration, "image-size"));
    s.precision = config_value(configuration, "precision");
    s.stem = stem_of_run(s.model, s.image_size, config_value(configuration, "stem"));
    s.classes = number_of(file, "number of classes");
    if (config_value(configuration, "share-device") != "true") s.device = text_of(file, "device kind");
    add_ranks(s, file);
    s.global_batch = number_of(file, "global batch (--batch-size)");
    if (s.ranks > 0) s.batch_per_rank = (s.global_batch + s.ranks - 1) / s.ranks;

    const std::vector<TrainRow>& train = file.rows<TrainRow>();
    const std::vector<TrainRow> rows = timed(train, file.run.count("bench") > 0);
    // If --metrics-every was given, /train may lack the last step of a run that was stopped. The
    // last event records that step.
    if (!train.empty()) s.steps = train.back().step;
    if (!file.rows<EventRow>().empty()) s.steps = std::max(s.steps, file.rows<EventRow>().back().step);
    s.step_seconds = median_of(rows, &TrainRow::step_seconds);
    s.data_seconds = median_of(rows, &TrainRow::data_seconds);
    s.comm_exposed_seconds = median_of(rows, &TrainRow::comm_exposed_seconds);
    s.step_images_per_second = s.global_batch > 0 ? double(s.global_batch) / s.step_seconds : NAN;
    add_epochs(s, file);
    for (const EvalRow& e : file.rows<EvalRow>()) {
        if (std::isfinite(e.seconds)) s.eval_seconds += e.seconds;
        s.last_accuracy = e.accuracy;
        s.last_epoch = e.epoch;
        if (e.accuracy <= s.best_accuracy) continue;  // false while best_accuracy is NaN
        s.best_accuracy = e.accuracy;
        s.best_epoch = e.epoch;
    }
    s.events = file.rows<EventRow>();
    make_printable(s);
    return s;
}

ScalingRun as_scaling_run(const RunSummary& s) {
    const bool oom = !s.out_of_memory.empty();
    if (!oom && s.global_batch < 1)
        fail(Exit::bad_input, s.run + ": its batch is not known; leave it out of --scaling");
    if (!oom && (s.ranks < 1 || s.hosts < 1))
        fail(Exit::bad_input, s.run + ": records no ranks, so its size is not known; leave it out of --scaling");
    if (!oom && !std::isfinite(s.images_per_second))
        fail(Exit::bad_input, s.run + ": completed no epoch, so its images/s are not known; leave it out of --scaling");
    return {.model = s.model,
            .precision = s.precision,
            .image_size = s.image_size,
            .batch = s.batch_per_rank,
            .nodes = s.hosts,
            .ranks = s.ranks,
            .samples_per_second = s.images_per_second,
            .out_of_memory = oom,
            .stem = s.stem,
            .classes = s.classes,
            .device = s.device,
            .run = s.run};
}

}  // namespace convoy
