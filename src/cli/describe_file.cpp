#include "cli/describe_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/shell_word.h"
#include "base/text.h"
#include "data/shard.h"
#include "report/summary.h"
#include "train/model_file.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;

/// Lines with a name and a text. Texts may come from files, so they are made safe to print.
class Lines {
public:
    void add(const char* name, const std::string& text) { text_ += formatted("%-12s ", name) + printable(text) + "\n"; }
    const std::string& text() const { return text_; }

private:
    std::string text_;
};

std::string size_text(const std::string& path) {
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    return error ? "" : formatted(", %.1f MiB", double(bytes) / (1 << 20));
}

std::string plural(int64_t n, const char* what) { return grouped(size_t(n)) + " " + what + (n == 1 ? "" : "s"); }

/// Returns the number of classes and the first of their names.
std::string classes_text(const std::vector<std::string>& names) {
    constexpr size_t most = 10;
    std::string text = std::to_string(names.size()) + ": ";
    for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i ? ", " : "") + names[i];
    return names.size() > most ? text + ", …" : text;
}

std::string numbers_text(const std::vector<float>& values) {
    std::string text;
    for (const float value : values) text += (text.empty() ? "" : ", ") + formatted("%.4g", double(value));
    return text;
}

std::string input_text(const ModelFile& m) {
    if (m.data != DType::u8) return formatted("vectors of %d numbers, as they are", m.model.h * m.model.w * m.model.c);
    const std::string resized =
        m.preprocessing.short_side > 0
            ? formatted(", cut out of images resized to a short side of %d", m.preprocessing.short_side)
            : "";
    return formatted("images of %dx%dx%d", m.model.h, m.model.w, m.model.c) + resized +
           ", (pixel / 255 - mean) / deviation";
}

void add_model(Lines& lines, const ModelFile& m) {
    const Graph graph = build_model(m.model);
    const std::string stem = stem_of(m.model);
    lines.add("model", formatted("%s%s: %s parameters, %.3f GFLOP per image (multiply-adds count two)",
                                 m.model.name.c_str(), stem.empty() ? "" : (" with the " + stem + " stem").c_str(),
                                 grouped(graph.parameter_count()).c_str(), graph.flops_per_image() / 1e9));
    lines.add("input", input_text(m));
    if (m.data == DType::u8) {
        lines.add("mean", numbers_text(m.preprocessing.mean));
        lines.add("deviation", numbers_text(m.preprocessing.stddev));
    }
    lines.add("classes", classes_text(m.class_names));
}

std::string describe_model(const std::string& path) {
    const OpenModel opened(path);
    const ModelFile& model = opened.file();
    Lines lines;
    lines.add(opened.is_checkpoint() ? "checkpoint" : "model file", path + size_text(path));
    add_model(lines, model);
    lines.add("written by", opened.writer());
    const bool pictures = model.data == DType::u8;
    lines.add("use it", (pictures ? "convoy classify --model-file " : "convoy evaluate --model-file ") +
                            shell_word(path) + (pictures ? " IMAGE..." : " --data DIR"));
    return lines.text();
}

/// Returns how the run ended, or when it last wrote.
std::string state_text(const std::string& run, const RunSummary& s) {
    if (!s.out_of_memory.empty()) return s.out_of_memory;
    if (!s.events.empty()) {
        const EventRow& last = s.events.back();
        if (last.kind == "done") return "finished " + last.iso_time;
        if (last.kind == "stop" || last.kind == "error")
            return "stopped at step " + grouped(size_t(last.step)) + ", " + last.iso_time + ": " + last.message;
    }
    struct stat file{};
    if (::stat((run + "/metrics.jsonl").c_str(), &file) != 0) return "not finished";
    const double seconds = double(std::max<time_t>(::time(nullptr) - file.st_mtime, 0));
    return "not finished: it runs, or was killed; last written " + duration_text(seconds) + " ago";
}

std::string accuracy_text(const RunSummary& s) {
    if (!std::isfinite(s.last_accuracy)) return "not evaluated";
    return formatted("%.2f %% after epoch %lld; best %.2f %% after epoch %lld", 100 * s.last_accuracy,
                     (long long)s.last_epoch, 100 * s.best_accuracy, (long long)s.best_epoch);
}

/// Returns the models and the newest checkpoint of a run.
std::string files_text(const std::string& run) {
    std::vector<std::string> names, checkpoints;
    for (const char* name : {"model.h5", "model-best.h5"})
        if (fs::exists(run + "/" + name)) names.emplace_back(name);
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(run + "/checkpoints", error))
        if (const std::string name = entry.path().filename(); name.starts_with("step-") && name.ends_with(".h5"))
            checkpoints.push_back(name);
    if (!checkpoints.empty())
        names.push_back(plural(int64_t(checkpoints.size()), "checkpoint") + ", the last one " +
                        *std::ranges::max_element(checkpoints));
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? "no model and no checkpoint" : text;
}

std::string option_of(const RunSummary& s, const std::string& name) {
    const auto found = std::ranges::find(s.options, name, [](const auto& pair) { return pair.first; });
    return found == s.options.end() ? "not recorded" : found->second;
}

std::string describe_run(const std::string& path) {
    const RunSummary s = summarise(path);
    Lines lines;
    lines.add("run", path);
    lines.add("state", state_text(path, s));
    lines.add("model", s.model + ", " + s.precision + ", images of " + s.image_size);
    lines.add("data", option_of(s, "data"));
    lines.add("ranks", plural(s.ranks, "rank") + " on " + plural(s.hosts, "host") +
                           (s.of_ranks.empty() ? "" : ": " + s.of_ranks.front().device));
    lines.add("trained", plural(s.epochs, "epoch") + ", " + plural(s.steps, "step") + " of " +
                             plural(s.global_batch, "image") + " in " + duration_text(s.training_seconds));
    lines.add("accuracy", accuracy_text(s));
    if (std::isfinite(s.step_images_per_second))
        lines.add("speed", formatted("%.1f images/s (median step)", s.step_images_per_second));
    lines.add("files", files_text(path));
    const auto warnings = std::ranges::count(s.events, "warning", &EventRow::kind);
    lines.add("more", "convoy report " + shell_word(path) + " shows " + plural(int64_t(s.events.size()), "event") +
                          (warnings > 0 ? ", " + plural(warnings, "warning") + " among them" : ""));
    return lines.text();
}

std::string describe_data(const std::string& path) {
    Lines lines;
    lines.add("data set", path);
    const SplitReader train(path, "train"), test(path, "test");
    for (const SplitReader* reader : {&train, &test}) {
        const SplitInfo& info = reader->info();
        lines.add(info.split.c_str(), plural(info.images, info.type == DType::u8 ? "image" : "vector") + " in " +
                                          plural(int64_t(reader->shards()), "shard") +
                                          formatted(", %.1f MiB in memory", double(info.image_bytes()) / (1 << 20)));
    }
    const SplitInfo& info = train.info();
    lines.add("images", std::string(info.ragged ? "of different sizes, up to " : "") +
                            formatted("%dx%dx%d", info.height, info.width, info.channels) +
                            (info.ragged ? ", stored as " + info.codec : ""));
    lines.add("mean", numbers_text(info.mean));
    lines.add("deviation", numbers_text(info.stddev));
    lines.add("classes", classes_text(info.class_names));
    lines.add("SHA-256", info.manifest_sha256 + " (of manifest.json)");
    lines.add("more", "convoy verify " + shell_word(path) + " compares every checksum");
    return lines.text();
}

}  // namespace

std::string description_of(const std::string& path) {
    std::error_code error;
    const fs::file_status there = fs::status(path, error);
    if (!fs::exists(there))
        fail(Exit::bad_input, path + ": no such file or folder; give a run folder, a model file or a data set");
    if (!fs::is_directory(there)) {
        const fs::path file(path);
        if (file.filename() != "metrics.h5") return describe_model(path);
        return describe_run(file.has_parent_path() ? file.parent_path().string() : ".");
    }
    if (fs::exists(path + "/manifest.json")) return describe_data(path);
    if (fs::exists(path + "/metrics.h5") || fs::exists(path + "/oom")) return describe_run(path);
    fail(Exit::bad_input, path + ": is neither a run folder (no metrics.h5) nor a data set (no manifest.json)");
}

}  // namespace convoy
