#include "train/checkpoint.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/clock.h"
#include "base/durable.h"
#include "base/shorten.h"
#include "data/digest.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;

/// Returns the SHA-256 of all numbers of the checkpoint, in a fixed order.
std::string digest_of_values(const Checkpoint& c) {
    Digest digest(Digest::Kind::sha256);
    for (int64_t v : {c.step, c.epoch, c.offset, int64_t(c.evaluation_due), c.best_step, c.ranks})
        digest.update(&v, sizeof v);
    for (const std::vector<float>* v : {&c.weights, &c.optimizer, &c.running, &c.backend})
        digest.update(v->data(), v->size() * sizeof(float));
    digest.update(c.tuning.data(), c.tuning.size());
    digest.update(c.exponents.data(), c.exponents.size() * sizeof(int32_t));
    return digest.hex();
}

constexpr const char* tuning_set = "/choices";  // u8 [bytes]; too long for an attribute

void write_tuning(hid_t file, const std::string& text, const std::string& path) {
    if (text.empty()) return;
    const h5::Handle set = h5::create_dataset(file, tuning_set, H5T_STD_U8LE, {text.size()}, {size_t(1) << 20}, path);
    h5::write_rows(set, H5T_NATIVE_UINT8, 0, text.size(), text.data(), path);
}

/// Returns the tuning; empty if nothing was tuned, or if the file is older than version 0.2.
std::string read_tuning(hid_t file, const std::string& path) {
    if (!h5::has(file, tuning_set)) return "";
    const h5::Extent e = h5::extent(file, tuning_set, path);
    if (e.dims.size() != 1 || e.element != h5::Element::u8 || e.stored_bytes < e.dims[0])
        fail(Exit::bad_input, path + ": data set " + tuning_set + " is not text; the file is damaged");
    std::string text(e.dims[0], '\0');
    h5::read_rows(h5::open_dataset(file, tuning_set, path), H5T_NATIVE_UINT8, 0, e.dims[0], text.data(), path);
    return text;
}

Identity read_identity(hid_t file, const std::string& path) {
    const std::vector<std::string> names = h5::string_attributes(file, "identity_names", path),
                                   values = h5::string_attributes(file, "identity_values", path);
    if (names.size() != values.size()) fail(Exit::bad_input, path + ": identity is damaged");
    Identity identity;
    for (size_t i = 0; i < names.size(); ++i) identity.emplace_back(names[i], values[i]);
    return identity;
}

/// Returns a tensor's values in the host copy of its arena.
template <class Floats> auto* in_copy(Floats& copy, const Tensor& arena, const Tensor& tensor) {
    return copy.data() + (static_cast<const float*>(tensor.data) - static_cast<const float*>(arena.data));
}

/// Calls f(name, shape, host values) for every tensor of weights and optimizer state.
template <class C, class F> void each_tensor(C& c, const State& state, F f) {
    for (const NamedTensor& t : state.model())
        if (state.is_trained(t.tensor)) f(t.name, t.tensor.shape, in_copy(c.weights, state.weights(), t.tensor));
    for (const NamedTensor& t : state.optimizer())
        f(t.name, t.tensor.shape, in_copy(c.optimizer, state.optimizer_block(), t.tensor));
}

constexpr size_t trial_bytes = size_t(1) << 16;
constexpr const char* trial_pattern = ".convoy-XXXXXX";  // for mkdtemp(3)

std::vector<std::string> column(const Identity& identity, bool values) {
    std::vector<std::string> texts;
    for (const auto& [name, value] : identity) texts.push_back(values ? value : name);
    return texts;
}

}  // namespace

void check_identity(const std::string& path, const Identity& checkpoint, const Identity& run) {
    const auto differs = [&](const std::string& name, const std::string& before, const std::string& now) {
        fail(Exit::usage, path + ": " + shortened(name) + " was " + shortened(before) + ", this run has " +
                              shortened(now) +
                              "; resume with what it was, or start from the beginning in another --output");
    };
    for (const auto& [name, value] : run) {
        const auto same_name = [&, n = name](const auto& entry) { return entry.first == n; };
        const auto found = std::find_if(checkpoint.begin(), checkpoint.end(), same_name);
        const std::string before = found == checkpoint.end() ? "none" : found->second;
        if (before != value) differs(name, before, value);
    }
    for (const auto& [name, value] : checkpoint)
        if (std::none_of(run.begin(), run.end(), [&, n = name](const auto& entry) { return entry.first == n; }))
            differs(name, value, "none");
}

namespace {

/// Writes the content of a checkpoint. `path` is for messages.
void fill_checkpoint(hid_t file, const Checkpoint& c, const State& state, const std::string& path) {
    h5::set_checked_attribute(file, "format", checkpoint_format);
    write_model_attributes(file, c.model);
    h5::set_checked_attribute(file, "identity_names", column(c.identity, false));
    h5::set_checked_attribute(file, "identity_values", column(c.identity, true));
    h5::set_checked_attribute(file, "configuration", c.configuration);
    for (const auto& [name, value] : {std::pair{"step", c.step},
                                      {"epoch", c.epoch},
                                      {"offset", c.offset},
                                      {"best_step", c.best_step},
                                      {"evaluation_due", int64_t(c.evaluation_due)},
                                      {"ranks", c.ranks}})
        h5::set_attribute(file, name, value);
    h5::set_attribute(file, "best_accuracy", c.best_accuracy);
    h5::set_attribute(file, "last_accuracy", c.last_accuracy);
    h5::set_attribute(file, "rate_factor", c.rate_factor);
    h5::set_attribute(file, "backend_state", std::vector<double>(c.backend.begin(), c.backend.end()));
    if (!c.exponents.empty())
        h5::set_attribute(file, "exponents", std::vector<double>(c.exponents.begin(), c.exponents.end()));
    if (!c.kinds.empty()) h5::set_checked_attribute(file, "kinds", c.kinds);
    h5::set_checked_attribute(file, "sha256", digest_of_values(c));
    each_tensor(c, state, [&](const std::string& name, Shape shape, const float* values) {
        write_tensor(file, name, shape, values, path);
    });
    if (!c.running.empty())
        write_tensor(file, running_statistics, {int(c.ranks), 1, 1, int(c.running.size() / size_t(c.ranks))},
                     c.running.data(), path);
    write_tuning(file, c.tuning, path);
}

}  // namespace

void write_checkpoint(const HeldPlace& place, const Checkpoint& c, const State& state) {
    write_file(place, [&](hid_t file, const std::string& path) { fill_checkpoint(file, c, state, path); });
}

namespace {

/// Writes, syncs and renames a file of `values`, like a checkpoint, and returns the seconds for
/// that. Then opens the file, because a checkpoint must be readable.
double seconds_of_trial(const HeldPlace& place, const std::vector<float>& values) {
    const Clock::time_point start = Clock::now();
    write_file(place, [&](hid_t file, const std::string& path) {
        Digest digest(Digest::Kind::sha256);
        digest.update(values.data(), values.size() * sizeof(float));
        h5::set_checked_attribute(file, "sha256", digest.hex());
        write_tensor(file, "trial", {int(values.size() / 1024), 1, 1, 1024}, values.data(), path);
    });
    const double seconds = seconds_since(start);
    const auto lock = h5::exclusive();
    place.folder().named([&] { h5::open(place.path()); });
    return seconds;
}

/// Makes a folder with an unused name, and returns its name. Throws Exit::io.
std::string make_trial(const HeldFolder& folder) {
    std::string path = folder.path(trial_pattern);
    if (!::mkdtemp(path.data())) cannot_write(folder.shown());
    return fs::path(path).filename();
}

}  // namespace

double estimated_seconds(const HeldFolder& folder, size_t bytes) {
    const size_t count = std::clamp<size_t>(bytes, trial_bytes, size_t(32) << 20) / sizeof(float);
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = float(i);
    const std::string own = make_trial(folder);  // if this run is killed, the next run in the folder removes it
    try {
        const double seconds = seconds_of_trial({HeldFolder(folder, own), "trial.h5"}, values);
        remove_trial(folder, own);
        return seconds * std::max(1.0, double(bytes) / double(count * sizeof(float)));
    } catch (...) {
        remove_trial(folder, own);
        throw;
    }
}

void remove_trial(const HeldFolder& above, const std::string& name) {
    try {
        const HeldFolder folder(above, name);
        for (const char* file : {"trial.h5", "trial.h5.partial"}) folder.try_to_remove(file);
        above.try_to_remove(name);
    } catch (const Error&) {  // it is not a folder
    }
}

bool is_trial(const std::string& name) {
    const std::string_view pattern = trial_pattern;
    const size_t drawn = pattern.find('X');
    const auto is_drawn = [](unsigned char c) { return std::isalnum(c) != 0; };
    return name.size() == pattern.size() && name.starts_with(pattern.substr(0, drawn)) &&
           std::all_of(name.begin() + ptrdiff_t(drawn), name.end(), is_drawn);
}

void save_model(const HeldPlace& place, const Checkpoint& c, const State& state) {
    save_model(place, c.model, state, [&](const Tensor& tensor) -> const float* {
        return state.is_trained(tensor) ? in_copy(c.weights, state.weights(), tensor)
                                        : in_copy(c.running, state.running(), tensor);
    });
}

Checkpoint read_checkpoint(const std::string& path, const State& state, const Identity& run) {
    const auto lock = h5::exclusive();
    const h5::Handle file = h5::open(path);
    if (h5::string_attribute(file, "format", path) != checkpoint_format)
        fail(Exit::bad_input, path + ": is not a checkpoint; give a file of a run's checkpoints folder");
    Checkpoint c;
    c.model = read_model_attributes(file, path);
    c.identity = read_identity(file, path);
    check_identity(path, c.identity, run);
    c.configuration = h5::string_attribute(file, "configuration", path);
    const auto number = [&](const char* name, int64_t low) {
        const int64_t v = h5::int_attribute(file, name, path);
        if (v < low)
            fail(Exit::bad_input, path + ": attribute " + name + " is " + std::to_string(v) + "; the file is damaged");
        return v;
    };
    c.step = number("step", 0);
    c.epoch = number("epoch", 0);
    c.offset = number("offset", 0);
    c.best_step = number("best_step", 0);
    c.evaluation_due = number("evaluation_due", 0) != 0;
    c.ranks = number("ranks", 1);
    const auto real = [&](const char* name) {
        const std::vector<double> v = h5::double_attributes(file, name, path);
        return v.empty() ? -1 : v[0];
    };
    c.best_accuracy = real("best_accuracy");
    c.last_accuracy = real("last_accuracy");
    for (double v : h5::double_attributes(file, "backend_state", path)) c.backend.push_back(float(v));
    if (h5::has_attribute(file, "exponents"))  // only runs with logical ranks write it
        for (double v : h5::double_attributes(file, "exponents", path)) c.exponents.push_back(int32_t(v));
    if (h5::has_attribute(file, "kinds")) c.kinds = h5::string_attributes(file, "kinds", path);
    c.rate_factor = real("rate_factor");
    if (!(c.rate_factor > 0 && c.rate_factor <= 1))
        fail(Exit::bad_input, path + ": attribute rate_factor is not from 0 to 1; the file is damaged");
    c.weights.assign(state.weights().count(), 0.0f);
    c.optimizer.assign(state.optimizer_block().count(), 0.0f);
    each_tensor(c, state,
                [&](const std::string& name, Shape shape, float* to) { read_tensor(file, name, shape, to, path); });
    if (state.running().count() > 0) {
        const h5::Extent extent = h5::extent(file, std::string("/tensors/") + running_statistics, path);
        if (c.ranks > 1'000'000 || extent.dims.empty() || extent.dims[0] != hsize_t(c.ranks) ||
            extent.stored_bytes < size_t(c.ranks) * state.running().bytes())  // checked before memory is allocated
            fail(Exit::bad_input, path + ": running statistics are not those of " + std::to_string(c.ranks) +
                                      " ranks; the file is damaged");
        const Shape shape{int(c.ranks), 1, 1, int(state.running().count())};
        c.running.resize(shape.count());
        read_tensor(file, running_statistics, shape, c.running.data(), path);
    }
    c.tuning = read_tuning(file, path);
    if (digest_of_values(c) != h5::string_attribute(file, "sha256", path))
        fail(Exit::bad_input, path + ": does not match its SHA-256; the file is damaged");
    return c;
}

Identity read_identity(const std::string& path) {
    const auto lock = h5::exclusive();
    return read_identity(h5::open(path), path);
}

std::string read_configuration(const std::string& path) {
    const auto lock = h5::exclusive();
    return h5::string_attribute(h5::open(path), "configuration", path);
}

std::string read_tuning(const std::string& path) {
    const auto lock = h5::exclusive();
    return read_tuning(h5::open(path), path);
}

}  // namespace convoy
