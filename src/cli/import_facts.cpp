#include "cli/import_facts.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/input_file.h"
#include "base/shorten.h"
#include "cli/choices.h"
#include "cli/command_line.h"
#include "data/shard.h"
#include "data/shard_folder.h"
#include "model/torch_layout.h"
#include "model/torch_names.h"

namespace convoy {
namespace {

constexpr int most_classes = 1'000'000, most_side = 4096;

struct Normalization {
    std::vector<float> mean, stddev;
};
/// Mean and deviation, as in torchvision, airbench94 and PyTorch's MNIST example.
const Choices<Normalization>& normalizations() {
    static const Choices<Normalization> all = {{"imagenet", {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}}},
                                               {"cifar10", {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}}},
                                               {"mnist", {{0.1307f}, {0.3081f}}},
                                               {"none", {}}};
    return all;
}

/// The metadata that `convoy export` wrote. Files from other programs have none of these keys.
class Metadata {
public:
    Metadata(const StoredTensors& stored, const std::string& path) : entries_(stored.metadata), path_(path) {}

    std::string text(const char* key) const {
        const auto found = entries_.find(key);
        return found == entries_.end() ? "" : found->second;
    }
    /// Returns 0 if there is no such key.
    int number(const char* key, int most) const {
        const std::string digits = text(key);
        if (digits.empty()) return 0;
        if (digits.size() > 7 || digits.find_first_not_of("0123456789") != std::string::npos ||
            std::stoi(digits) > most)
            refuse(key);
        return std::stoi(digits);
    }
    template <class T> std::vector<T> list(const char* key) const {
        const std::string given = text(key);
        if (given.empty()) return {};
        const auto parsed = nlohmann::json::parse(
            given,
            [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json&) {
                if (depth > 1 || event == nlohmann::json::parse_event_t::object_start) refuse(key);
                return true;
            },
            false);
        std::vector<T> values;
        for (const auto& item : parsed.is_array() ? parsed : nlohmann::json::array()) {
            const bool good = std::is_same_v<T, std::string> ? item.is_string() : item.is_number();
            if (!good) refuse(key);
            values.push_back(item.template get<T>());
        }
        if (values.empty()) refuse(key);
        return values;
    }
    [[noreturn]] void refuse(const char* key) const {
        fail(Exit::bad_input, path_ + ": metadata " + key + " is '" + shortened(text(key), 60) +
                                  "', not as convoy export writes it; get the file again");
    }

private:
    const std::map<std::string, std::string>& entries_;
    const std::string& path_;
};

const StoredTensor* find(const StoredTensors& stored, const std::string& name) {
    const auto found = std::ranges::find(stored.tensors, name, &StoredTensor::name);
    return found == stored.tensors.end() ? nullptr : &*found;
}

/// Returns the rows of the file's last layer; 0 if it has none.
int rows_of_last_layer(const ModelOptions& model, const StoredTensors& stored) {
    ModelOptions any = model;
    any.classes = 10;
    const std::vector<TorchEntry> layout = torch_layout(build_model(any));
    const auto last = std::find_if(layout.rbegin(), layout.rend(), [](const auto& e) { return e.dims.size() == 2; });
    const StoredTensor* weight = find(stored, last->name);
    if (!weight || weight->shape.size() != 2 || weight->shape[0] < 1 || weight->shape[0] > most_classes) return 0;
    return int(weight->shape[0]);
}

/// Sets the stem, the size of images, and the short side to which they are resized first.
void set_images(ModelFile& m, const ImportOptions& o, const StoredTensors& stored, const Metadata& metadata,
                const SplitInfo* data) {
    ModelOptions& model = m.model;
    const StoredTensor* first = find(stored, torch_name(model.name, "stem.conv.weight"));
    const bool resnet = model.name.starts_with("resnet");
    if (resnet && first && first->shape.size() == 4) model.stem = first->shape[2] == 7 ? "imagenet" : "cifar";
    const bool large = resnet && model.stem == "imagenet";
    const Shape usual = large ? Shape{1, 224, 224, 3} : Shape{1, 32, 32, 3};
    const ModelOptions known = usual_images(model.name, usual);
    model.h = known.h, model.w = known.w, model.c = known.c;
    int h = 0, w = 0, c = 0, read = 0;
    if (const std::string size = metadata.text("image_size"); !size.empty()) {
        if (std::sscanf(size.c_str(), "%4dx%4dx%2d%n", &h, &w, &c, &read) != 3 || size_t(read) != size.size() ||
            std::min({h, w, c}) < 1 || std::max(h, w) > most_side || c > 16)
            metadata.refuse("image_size");
        model.h = h, model.w = w, model.c = c;
        m.preprocessing.short_side = metadata.number("resize_short_side", 2 * most_side);
    } else if (large) {
        m.preprocessing.short_side = 256;
    }
    const auto resized = [&] { return int(std::lround(std::max(model.h, model.w) * 8.0 / 7)); };
    if (data) {
        model.c = data->channels;
        if (!data->ragged && o.image_size.side == 0 && o.resize == 0) {
            model.h = data->height, model.w = data->width;
            m.preprocessing.short_side = 0;
        }
    }
    if (const int side = o.image_size.side; side > 0) {
        model.h = model.w = side;
        const bool as_data = data && !data->ragged && data->height == side && data->width == side;
        m.preprocessing.short_side = large && !as_data ? resized() : 0;
    }
    if (data && (data->ragged || data->height != model.h || data->width != model.w) && m.preprocessing.short_side == 0)
        m.preprocessing.short_side = resized();
    if (o.resize > 0) m.preprocessing.short_side = o.resize;
    if (const int side = m.preprocessing.short_side; side > 0 && side < std::max(model.h, model.w))
        fail(Exit::usage, "--resize " + std::to_string(side) + " is less than the model's " + std::to_string(model.h) +
                              " pixels; give at least that");
}

/// Returns mean and deviation by channel.
Normalization statistics_of(const ImportOptions& o, const ModelFile& m, const Metadata& metadata,
                            const SplitInfo* data) {
    const size_t channels = size_t(m.model.c);
    Normalization s;
    if (!o.normalize.empty()) {
        s = choose("normalize", o.normalize, normalizations());
    } else if (data) {
        s = {data->mean, data->stddev};
    } else if (!metadata.text("mean").empty()) {
        s = {metadata.list<float>("mean"), metadata.list<float>("stddev")};
    } else if (m.data == DType::u8) {
        const bool imagenet = m.model.name.starts_with("resnet") && m.model.stem == "imagenet";
        s = choose("normalize", channels == 1 ? "mnist" : imagenet ? "imagenet" : "cifar10", normalizations());
    }
    if (s.mean.empty()) s = {std::vector<float>(channels, 0), std::vector<float>(channels, 1)};
    if (!o.mean.values.empty()) s.mean.assign(o.mean.values.begin(), o.mean.values.end());
    if (!o.stddev.values.empty()) s.stddev.assign(o.stddev.values.begin(), o.stddev.values.end());
    for (float& deviation : s.stddev)
        if (deviation == 0) deviation = 1;  // as in training: a constant channel is not scaled
    const auto finite = [](float v) { return std::isfinite(v); };
    if (s.mean.size() != channels || s.stddev.size() != channels || !std::ranges::all_of(s.mean, finite) ||
        !std::ranges::all_of(s.stddev, [](float v) { return v > 0 && std::isfinite(v); }))
        fail(Exit::usage, "mean and stddev must have " + std::to_string(channels) +
                              " finite numbers each, one per channel, and stddev above 0; give --mean and --stddev");
    return s;
}

std::vector<std::string> names_in(const std::string& file) {
    constexpr size_t most_bytes = 64 << 20;
    std::vector<std::string> names = lines_of_input(file, most_bytes, "it has the name of a class in each line");
    std::erase(names, "");
    return names;
}

/// The names of classes that have none.
std::vector<std::string> numbered_names(int classes) {
    std::vector<std::string> names;
    for (int i = 0; i < classes; ++i) names.push_back("class " + std::to_string(i));
    return names;
}

/// Throws if the weights record other classes than the data set, or in another order.
void check_recorded_names(const ImportOptions& o, const std::vector<std::string>& recorded,
                          const std::vector<std::string>& of_data) {
    if (recorded.size() != of_data.size() || recorded == numbered_names(int(recorded.size()))) return;
    for (size_t i = 0; i < recorded.size(); ++i)
        if (recorded[i] != of_data[i])
            fail(Exit::bad_input, o.from + ": records class " + std::to_string(i) + " as '" +
                                      shortened(printable(recorded[i])) + "', and " + o.data + " has '" +
                                      shortened(of_data[i]) +
                                      "'; if they are the same, give the names with --class-names");
}

/// Sets the number of classes and their names.
void set_classes(ModelFile& m, const ImportOptions& o, const StoredTensors& stored, const Metadata& metadata,
                 const SplitInfo* data) {
    std::vector<std::string> names = !o.class_names.empty() ? names_in(o.class_names)
                                     : data                 ? data->class_names
                                                            : std::vector<std::string>();
    const int rows = rows_of_last_layer(m.model, stored);
    m.model.classes = o.classes > 0 ? o.classes : rows > 0 ? rows : !names.empty() ? int(names.size()) : 10;
    if (!names.empty() && names.size() != size_t(m.model.classes))
        fail(Exit::bad_input, (o.class_names.empty() ? o.data : o.class_names) + ": names " +
                                  std::to_string(names.size()) + " classes, and " +
                                  (o.classes > 0 ? "--classes is " : o.from + " has ") +
                                  std::to_string(m.model.classes) + "; give the names of these");
    const std::vector<std::string> recorded = metadata.list<std::string>("class_names");
    if (o.class_names.empty() && data) check_recorded_names(o, recorded, names);
    if (names.empty()) names = recorded;
    if (names.size() != size_t(m.model.classes)) names = numbered_names(m.model.classes);
    for (const std::string& name : names) check_class_name(name, "give other names: --class-names FILE");
    m.class_names = names;
}

}  // namespace

ModelFile facts_of(const ImportOptions& o, const StoredTensors& stored) {
    const Metadata metadata(stored, o.from);
    ModelFile m;
    m.model.name = o.model.empty() ? shortened(metadata.text("model"), 80) : o.model;
    if (m.model.name.empty())
        fail(Exit::usage,
             o.from + ": does not say which model it is of; give --model, one of " + list_of(model_names()));
    std::optional<SplitInfo> data;
    if (!o.data.empty()) data = SplitReader(o.data, "train").info();
    const SplitInfo* info = data ? &*data : nullptr;
    const ModelOptions usual = usual_images(m.model.name);
    const bool vectors = metadata.text("trained_on").empty() ? usual.h == 1 : metadata.text("trained_on") == "vectors";
    m.data = info ? info->type : vectors ? DType::f32 : DType::u8;
    set_images(m, o, stored, metadata, info);
    set_classes(m, o, stored, metadata, info);
    const Normalization s = statistics_of(o, m, metadata, info);
    m.preprocessing.mean = s.mean;
    m.preprocessing.stddev = s.stddev;
    return m;
}

}  // namespace convoy
