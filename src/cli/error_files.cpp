#include "cli/error_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/durable.h"
#include "base/shorten.h"
#include "base/table.h"
#include "data/image_resize.h"
#include "data/png_file.h"
#include "run/run_leftovers.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;

constexpr int short_side = 256;

std::vector<unsigned char> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string picture_name(size_t mistake) { return formatted("mistake-%02zu.png", mistake + 1); }

/// Returns an image of a split. A grey image gets three equal channels.
RgbImage read_image(const SplitReader& reader, const ImagePlace& place, int64_t index) {
    const int channels = reader.info().channels;
    std::vector<uint8_t> values(size_t(place.height) * size_t(place.width) * size_t(channels));
    int32_t label = 0;
    reader.read(index, 1, values.data(), &label);
    RgbImage image{.height = place.height, .width = place.width};
    for (size_t pixel = 0; pixel < values.size(); pixel += size_t(channels))
        for (int c = 0; c < 3; ++c) image.pixels.push_back(values[pixel + size_t(channels == 3 ? c : 0)]);
    RgbImage smaller;
    const bool large = std::min(image.height, image.width) > short_side;
    if (large && resize(image, {.kind = Resize::Kind::short_side, .short_side = short_side}, smaller)) return smaller;
    return image;
}

std::vector<std::vector<uint8_t>> pictures_of(const ErrorAnalysis& a, const SplitReader& reader) {
    const SplitInfo& info = reader.info();
    if (info.type != DType::u8) return {};
    const std::vector<ImagePlace> places = info.ragged ? reader.places() : std::vector<ImagePlace>();
    std::vector<std::vector<uint8_t>> pictures;
    for (const Mistake& m : a.mistakes())
        pictures.push_back(png_of(
            read_image(reader, info.ragged ? places[m.image] : ImagePlace{0, info.height, info.width}, m.image)));
    return pictures;
}

std::string share(int64_t part, int64_t whole) {
    return whole == 0 ? "" : formatted("%.6f", double(part) / double(whole));
}

std::string classes_csv(const ErrorAnalysis& a, const std::vector<std::string>& names) {
    TextTable t;
    t.header = {"class", "images", "correct", "accuracy", "accuracy_low", "accuracy_high", "predicted"};
    for (int c = 0; c < a.classes(); ++c) {
        const int64_t images = a.images_of(c), correct = a.count(c, c);
        const ShareInterval interval = wilson_interval(correct, images);
        t.rows.push_back({names[c], std::to_string(images), std::to_string(correct), share(correct, images),
                          formatted("%.6f", interval.low), formatted("%.6f", interval.high),
                          std::to_string(a.predicted_as(c))});
    }
    return as_csv(t);
}

std::string confusion_csv(const ErrorAnalysis& a, const std::vector<std::string>& names) {
    TextTable t;
    if (a.classes() > most_classes_of_matrix) {
        t.header = {"label", "predicted", "images"};
        for (const auto& [pair, images] : a.pairs())
            t.rows.push_back({names[pair.first], names[pair.second], std::to_string(images)});
        return as_csv(t);
    }
    t.header = {"label"};
    t.header.insert(t.header.end(), names.begin(), names.end());
    for (int label = 0; label < a.classes(); ++label) {
        t.rows.push_back({names[label]});
        for (int c = 0; c < a.classes(); ++c) t.rows.back().push_back(std::to_string(a.count(label, c)));
    }
    return as_csv(t);
}

std::string mistakes_csv(const ErrorAnalysis& a, const std::vector<std::string>& names) {
    TextTable t;
    t.header = {"image", "label", "predicted", "confidence", "label_probability"};
    for (const Mistake& m : a.mistakes())
        t.rows.push_back({std::to_string(m.image), names[m.label], names[m.predicted], formatted("%.6f", m.confidence),
                          formatted("%.6f", m.of_the_label)});
    return as_csv(t);
}

/// Makes the folder of a report. Refuses a folder or link that exists at its path by now, because
/// another user may have made it.
HeldFolder new_folder(const std::string& dir) {
    const std::string path = without_slashes(dir);
    make_folder_of(path);
    if (::mkdir(path.c_str(), 0777) == 0) return HeldFolder(path);
    if (errno != EEXIST) cannot_write(path);
    fail(Exit::io, "--report " + dir + ": another folder has taken this path meanwhile; choose another");
}

}  // namespace

ReportFolder::ReportFolder(const std::string& dir, bool overwrite) : dir_(dir), overwrite_(overwrite) {
    std::error_code error;
    const fs::file_status there = fs::status(dir, error);
    if (!fs::exists(there)) return;
    if (!fs::is_directory(there)) fail(Exit::usage, "--report " + dir + " is not a folder; choose another");
    there_.emplace(dir, HeldFolder::IfLink::follow_own);
    if (!overwrite && !there_->names(error).empty())
        fail(Exit::usage, "--report " + dir + " is not empty; replace a report with --overwrite, or choose another");
}

std::string ReportFolder::warning() const { return there_ ? warning_of_owner(*there_, "--report") : ""; }

nlohmann::ordered_json errors_as_json(const ErrorAnalysis& a, const MeasuredModel& m) {
    const double images = double(a.images());
    const ShareInterval interval = wilson_interval(a.correct(), a.images());
    nlohmann::ordered_json j = {{"model", m.model},
                                {"data", m.data},
                                {"split", m.split},
                                {"images", a.images()},
                                {"correct", a.correct()},
                                {"loss", a.loss()},
                                {"accuracy", double(a.correct()) / images},
                                {"accuracy_interval", {interval.low, interval.high}},
                                {"top5_accuracy", double(a.correct_in_five()) / images},
                                {"calibration_error", a.calibration_error()},
                                {"classes", m.class_names}};
    auto& confusion = j["confusion"] = nlohmann::ordered_json::array();
    for (int label = 0; label < a.classes() && a.classes() <= most_classes_of_matrix; ++label) {
        std::vector<int64_t> row;
        for (int c = 0; c < a.classes(); ++c) row.push_back(a.count(label, c));
        confusion.push_back(row);
    }
    auto& reliability = j["reliability"] = nlohmann::ordered_json::array();
    for (const ReliabilityBin& bin : a.bins())
        reliability.push_back({{"images", bin.images},
                               {"correct", bin.correct},
                               {"confidence", bin.images == 0 ? 0 : bin.confidence / double(bin.images)}});
    auto& mistakes = j["mistakes"] = nlohmann::ordered_json::array();
    for (const Mistake& wrong : a.mistakes())
        mistakes.push_back({{"image", wrong.image},
                            {"label", wrong.label},
                            {"predicted", wrong.predicted},
                            {"confidence", wrong.confidence},
                            {"label_probability", wrong.of_the_label}});
    return j;
}

void ReportFolder::write(const ErrorAnalysis& a, const MeasuredModel& m, const SplitReader& reader) const {
    const std::vector<std::vector<uint8_t>> pictures = pictures_of(a, reader);
    const HeldFolder folder = there_ ? *there_ : new_folder(dir_);
    std::error_code error;
    if (!there_ && !folder.names(error).empty())
        fail(Exit::io, "--report " + dir_ + ": another folder has taken this path meanwhile; choose another");
    const bool replaces = overwrite_ && there_;
    const auto write = [&](const std::string& name, const std::vector<uint8_t>& bytes) {
        replace_file({folder, name}, bytes, replaces ? IfThere::replace : IfThere::refuse);
    };
    for (size_t i = 0; i < pictures.size(); ++i) write(picture_name(i), pictures[i]);
    for (size_t i = pictures.size(); replaces && i < ErrorAnalysis::usual_mistakes; ++i)
        folder.try_to_remove(picture_name(i));
    if (a.classes() <= most_classes_of_matrix) write("confusion.png", png_of(confusion_picture(a)));
    std::vector<std::string> names = m.class_names;
    for (std::string& name : names) name = shortened(name);  // because many rows repeat them
    write("classes.csv", bytes_of(classes_csv(a, names)));
    write("confusion.csv", bytes_of(confusion_csv(a, names)));
    write("mistakes.csv", bytes_of(mistakes_csv(a, names)));
    const std::string json = errors_as_json(a, m).dump(1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
    write("report.json", bytes_of(json));
    write("report.html", bytes_of(error_page(a, m, pictures)));
}

}  // namespace convoy
