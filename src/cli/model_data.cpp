#include "cli/model_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/shorten.h"
#include "base/text.h"
#include "comm/preflight.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

/// Throws Exit::bad_input, naming the first class whose name in the data is not the model's.
void check_class_names(const std::string& path, const std::vector<std::string>& model, const std::string& data_dir,
                       const std::vector<std::string>& data) {
    const auto [ours, theirs] = std::mismatch(model.begin(), model.end(), data.begin(), data.end());
    if (ours == model.end() && theirs == data.end()) return;
    const auto quoted = [](auto at, auto end) { return at == end ? "missing" : "'" + shortened(*at) + "'"; };
    fail(Exit::bad_input, path + ": class " + std::to_string(ours - model.begin()) + " is " +
                              quoted(ours, model.end()) + ", in " + data_dir + " it is " + quoted(theirs, data.end()) +
                              "; give the data set that the model was trained on, or one with the same classes");
}

/// Throws Exit::bad_input, with the values of all properties in which data and model differ.
void check_sizes(const std::string& path, const ModelFile& file, const std::string& data_dir, const SplitInfo& d) {
    std::string trained, holds;
    const auto compare = [&](const std::string& model, const std::string& data) {
        if (model == data) return;
        trained += (trained.empty() ? "" : ", ") + model;
        holds += (holds.empty() ? "" : ", ") + data;
    };
    const auto size = [](int height, int width) { return formatted("%dx%d pixels", height, width); };
    const auto counted = [](int n, const char* one, const char* many) {
        return std::to_string(n) + " " + (n == 1 ? one : many);
    };
    if (file.preprocessing.short_side == 0)
        compare(size(file.model.h, file.model.w),
                d.ragged ? "many sizes up to " + size(d.height, d.width) : size(d.height, d.width));
    compare(counted(file.model.c, "channel", "channels"), counted(d.channels, "channel", "channels"));
    compare(counted(file.model.classes, "class", "classes"), counted(d.classes, "class", "classes"));
    if (!trained.empty())
        fail(Exit::bad_input, path + " was trained on images of " + trained + ", but " + data_dir +
                                  " holds images of " + holds +
                                  "; give the data set that it was trained on, or one of its kind");
}

}  // namespace

void check_data(const std::string& path, const ModelFile& file, const std::string& data_dir, const SplitInfo& d) {
    const auto kind = [](DType type) { return std::string(type == DType::f32 ? "vectors" : "images"); };
    if (d.type != file.data)
        fail(Exit::bad_input, path + " was trained on " + kind(file.data) + ", but " + data_dir + " holds " +
                                  kind(d.type) + "; give the data set that it was trained on, or one of its kind");
    check_sizes(path, file, data_dir, d);
    check_class_names(path, file.class_names, data_dir, d.class_names);
}

void check_same_model(Comm& comm, const OpenModel& model) {
    if (comm.size() == 1) return;
    std::string sha256;
    comm.together([&] { sha256 = model.sha256(); });
    check_alike(comm, {{"the model (SHA-256 of its file)", sha256}});
}

void load_finite_model(const OpenModel& model, const State& state, TensorMemory& memory) {
    const auto check = [&](const std::string& name, const std::vector<float>& values, bool positive = false) {
        const auto is_fit = [&](float value) { return std::isfinite(value) && (!positive || value > 0); };
        if (!std::all_of(values.begin(), values.end(), is_fit))
            fail(Exit::bad_input, model.path() + ": " + name + " has a value that is " +
                                      (positive ? "not positive" : "not finite") +
                                      ", so nothing can be predicted; give another checkpoint of the run");
    };
    check("mean", model.file().preprocessing.mean);
    check("stddev", model.file().preprocessing.stddev, true);
    model.load(state, memory);
    std::vector<float> values;
    for (const NamedTensor& t : state.model()) {
        values.resize(t.tensor.count());
        memory.download(values.data(), t.tensor.data, t.tensor.bytes());
        check(t.name, values);
    }
}

void check_may_write(const std::string& to, bool overwrite) {
    std::error_code error;
    const fs::file_status there = fs::symlink_status(to, error);
    if (!fs::exists(there)) return;
    if (!overwrite) fail(Exit::usage, to + " is there already; replace it with --overwrite, or choose another");
    if (!fs::is_regular_file(there)) fail(Exit::usage, to + " is not a regular file; choose another");
}

}  // namespace convoy
