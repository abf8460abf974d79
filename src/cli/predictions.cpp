#include "cli/predictions.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/durable.h"
#include "base/shorten.h"
#include "base/table.h"
#include "base/text.h"
#include "base/version.h"
#include "data/hdf5.h"

namespace convoy {
namespace {

/// Returns JSON in ASCII. Bytes that are not UTF-8 become replacement characters. Other characters
/// beyond ASCII are escaped, because some of them control a terminal.
std::string dumped(const nlohmann::ordered_json& value) {
    return value.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

std::string percent(double probability) { return formatted("%.1f %%", 100 * probability); }

constexpr hsize_t chunk_rows = 4096;

void write_numbers(hid_t file, const std::string& name, const std::vector<int32_t>& values, const std::string& path) {
    const h5::Handle set = h5::create_dataset(file, name, H5T_STD_I32LE, {values.size()}, {chunk_rows}, path);
    h5::write_rows(set, H5T_NATIVE_INT32, 0, values.size(), values.data(), path);
}

constexpr size_t longest_text = 1024, least_text = 64;  // bytes
constexpr size_t most_texts = size_t(256) << 20;        // bytes of all texts of a data set

/// Writes /logits f32 [n, classes]. Chunks of images without logits are not stored; they read as
/// NaN.
void write_logits(hid_t file, const std::vector<Prediction>& predictions, size_t classes, const std::string& path) {
    constexpr float none = std::numeric_limits<float>::quiet_NaN();
    constexpr size_t chunk_bytes = 16 << 20;
    const size_t rows = predictions.size();
    const size_t each = std::min(std::max<size_t>(1, rows), std::max<size_t>(1, chunk_bytes / (4 * classes)));
    const hsize_t dims[] = {rows, classes}, chunk[] = {each, classes};
    const h5::Handle space(H5Screate_simple(2, dims, nullptr)), layout(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_chunk(layout, 2, chunk);
    H5Pset_fletcher32(layout);
    H5Pset_obj_track_times(layout, false);
    H5Pset_fill_value(layout, H5T_NATIVE_FLOAT, &none);
    const h5::Handle set(H5Dcreate2(file, "/logits", H5T_IEEE_F32LE, space, H5P_DEFAULT, layout, H5P_DEFAULT));
    if (!set.valid()) fail(Exit::io, path + ": cannot create /logits");
    for (size_t first = 0; first < rows; first += each) {
        const size_t count = std::min(each, rows - first);
        std::vector<float> logits(count * classes, none);
        bool any = false;
        for (size_t i = 0; i < count; ++i) {
            const std::vector<float>& of_image = predictions[first + i].logits;
            std::ranges::copy(of_image, logits.begin() + std::ptrdiff_t(i * classes));
            any = any || !of_image.empty();
        }
        if (any) h5::write_rows(set, H5T_NATIVE_FLOAT, first, count, logits.data(), path);
    }
}

}  // namespace

std::vector<RankedClass> ranked(const std::vector<float>& logits, int most) {
    std::vector<int> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const size_t n = std::min(order.size(), size_t(most));
    std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(n), order.end(), [&](int a, int b) {
        const float x = logits[a], y = logits[b];
        return x != y ? x > y : a < b;
    });
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - largest);
    std::vector<RankedClass> best;
    for (size_t i = 0; i < n; ++i) best.push_back({order[i], std::exp(logits[order[i]] - largest) / sum});
    return best;
}

PredictionPrinter::PredictionPrinter(Format format, std::vector<std::string> class_names, int most, bool has_labels)
    : format_(format),
      class_names_(std::move(class_names)),
      most_(std::min(most, int(class_names_.size()))),
      has_labels_(has_labels) {
    for (std::string& name : class_names_) name = shortened(name);  // because each image repeats them
}

void PredictionPrinter::begin(const std::string& model) const {
    if (format_ == Format::json) std::printf("{\"model\": %s, \"images\": [", dumped(model).c_str());
    if (format_ != Format::csv) return;
    std::string header = has_labels_ ? "image,label" : "image";
    for (int i = 1; i <= most_; ++i) header += formatted(",class_%d,probability_%d", i, i);
    std::printf("%s,fault\n", header.c_str());
}

void PredictionPrinter::add(const Prediction& p) {
    const std::string text = format_ == Format::text  ? printable(as_line(p)) + "\n"
                             : format_ == Format::csv ? as_row(p)
                                                      : (first_ ? "\n  " : ",\n  ") + as_json(p);
    std::fwrite(text.data(), 1, text.size(), stdout);
    first_ = false;
}

void PredictionPrinter::end() const {
    if (format_ == Format::json) std::printf("\n]}\n");
}

std::string PredictionPrinter::as_line(const Prediction& p) const {
    if (!p.fault.empty()) return p.image + "  not classified: " + p.fault;
    std::string line = p.image + " ";
    for (const RankedClass& c : ranked(p.logits, most_))
        line += (line.ends_with(' ') ? " " : ", ") + name_of(c.index) + " " + percent(c.probability);
    return p.label < 0 ? line : line + " (labelled " + name_of(p.label) + ")";
}

std::string PredictionPrinter::as_row(const Prediction& p) const {
    TextTable row;
    row.header = {p.image};
    if (has_labels_) row.header.push_back(p.label < 0 ? "" : name_of(p.label));
    const std::vector<RankedClass> best = p.fault.empty() ? ranked(p.logits, most_) : std::vector<RankedClass>();
    for (int i = 0; i < most_; ++i) {
        row.header.push_back(best.empty() ? "" : name_of(best[i].index));
        row.header.push_back(best.empty() ? "" : formatted("%.6f", best[i].probability));
    }
    row.header.push_back(p.fault);
    return as_csv(row);
}

std::string PredictionPrinter::as_json(const Prediction& p) const {
    nlohmann::ordered_json row = {{"image", p.image}};
    if (p.label >= 0) row["label"] = name_of(p.label);
    if (!p.fault.empty()) row["fault"] = p.fault;
    if (p.fault.empty())
        for (const RankedClass& c : ranked(p.logits, most_))
            row["classes"].push_back({{"name", name_of(c.index)}, {"index", c.index}, {"probability", c.probability}});
    return dumped(row);
}

void write_predictions(const HeldPlace& place, const std::vector<Prediction>& predictions,
                       const std::vector<std::string>& class_names, const std::string& model, IfThere if_there) {
    const std::string& to = place.shown();
    std::vector<int32_t> best, labels;
    std::vector<std::string> images, faults;
    for (const Prediction& p : predictions) {
        best.push_back(p.fault.empty() ? ranked(p.logits, 1).front().index : -1);
        labels.push_back(p.label);
        images.push_back(p.image);
        faults.push_back(p.fault);
    }
    h5::Handle file = h5::create_in_memory();
    write_logits(file, predictions, class_names.size(), to);
    write_numbers(file, "/prediction", best, to);
    write_numbers(file, "/label", labels, to);
    // Each text takes the bytes of the longest one.
    const size_t longest =
        std::min(longest_text, std::max(least_text, most_texts / std::max<size_t>(1, images.size())));
    h5::write_texts(file, "/image", images, longest, chunk_rows, to);
    h5::write_texts(file, "/fault", faults, longest, chunk_rows, to);
    h5::set_attribute(file, "format", "convoy-predictions");
    h5::set_attribute(file, "model", model);
    h5::set_attribute(file, "class_names", class_names);
    h5::set_attribute(file, "writer", std::string("convoy ") + version + " (" + commit() + ")");
    replace_file(place, h5::image(file), if_there);
}

}  // namespace convoy
