#include "data/shard_conversion.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/shorten.h"
#include "data/input_bytes.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr int64_t most_file_bytes = 256 << 20;
// Limits for pixels that are stored: otherwise a picture of 200 bytes could become many megabytes.
constexpr int64_t small_image = 256 << 10, most_growth = 10'000;
constexpr int64_t most_extra = 1 << 20;  // bytes of a kept file beside its pixels

/// Reads a whole image file. Throws BadImage if it is too large or this user may not read it.
/// Throws Error if it is gone, because then the whole source may be gone.
void read_image(const ListedImage& image, const std::vector<FilePlace>& sources, std::vector<uint8_t>& to) {
    const FilePlace& source = sources.at(size_t(image.source));
    const bool member = image.offset >= 0;
    const FilePlace place = member ? source : FilePlace(fs::path(source.opened) / image.name);
    if (!member && ::access(place.opened.c_str(), R_OK) != 0 && errno == EACCES)
        throw BadImage(ImageFault::unreadable, "cannot be opened: permission denied");
    const InputBytes file(place);
    const int64_t bytes = member ? image.bytes : file.size();
    if (bytes > most_file_bytes)
        throw BadImage(ImageFault::too_large, "has " + std::to_string(bytes) + " bytes, more than 256 MiB");
    to.resize(size_t(bytes));
    file.read(member ? image.offset : 0, bytes, to.data());
}

/// Reads images one after the other, reusing the memory.
class Pixels {
public:
    Pixels(const ImageRules& rules, const std::vector<FilePlace>& sources) : rules_(rules), sources_(sources) {}

    /// Returns an image with the pixels to store. Throws BadImage, and Error as read_image() does.
    const RgbImage& read(const ListedImage& image) {
        read_image(image, sources_, file_);
        decode_image(file_, decoded_);
        const bool kept = rules_.layout == ImageLayout::jpeg;
        if (kept && int64_t(decoded_.pixels.size()) > int64_t(file_.size()) * most_pixel_bytes_a_byte)
            throw BadImage(ImageFault::too_large, "packs its pixels too tightly to be kept as it is");
        if (kept && int64_t(file_.size()) > 2 * int64_t(decoded_.pixels.size()) + most_extra)
            throw BadImage(ImageFault::too_large, "has far more bytes than its pixels, which would all be kept");
        const RgbImage& stored = !kept && resize(decoded_, rules_.resize, resized_) ? resized_ : decoded_;
        const auto bytes = int64_t(stored.pixels.size());
        if (!kept && bytes > small_image && bytes > int64_t(file_.size()) * most_growth)
            throw BadImage(ImageFault::too_large, "takes more than " + std::to_string(most_growth) +
                                                      " times the bytes of its file, which no photograph does");
        return stored;
    }
    const std::vector<uint8_t>& file() const { return file_; }  ///< the file read last
    const RgbImage& decoded() const { return decoded_; }        ///< the image before resizing

private:
    const ImageRules& rules_;
    const std::vector<FilePlace>& sources_;
    std::vector<uint8_t> file_;
    RgbImage decoded_, resized_;
};

/// Writes images to one shard.
class Converter {
public:
    Converter(const ImageRules& rules, const std::vector<FilePlace>& sources, const FilePlace& place)
        : pixels_(rules, sources), writer_(place, rules.layout, rules.resize.height, rules.resize.width) {}

    /// Adds an image. Changes nothing if it throws BadImage.
    void add(const ListedImage& image, ShardRecord& record) {
        const RgbImage& shown = pixels_.read(image);
        writer_.add(shown, pixels_.file(), image.class_index);
        record.pixels.add(shown.pixels.data(), shown.pixels.size());
        ImageTally& tally = record.tally;
        ++tally.images;
        for (int i = 0; i < image_notes; ++i) tally.noted[i] += pixels_.decoded().has(ImageNote(i));
        tally.classes.resize(std::max(tally.classes.size(), size_t(image.class_index) + 1));
        ++tally.classes[image.class_index];
    }
    ImageShardWriter& writer() { return writer_; }

private:
    Pixels pixels_;
    ImageShardWriter writer_;
};

}  // namespace

int64_t ImageTally::left_out() const { return std::accumulate(faults.begin(), faults.end(), int64_t(0)); }

void ImageTally::leave_out(const std::string& name, const BadImage& why) {
    ++faults[size_t(why.fault)];
    if (examples.size() < most_examples) examples.push_back(printable(shortened(name) + ": " + why.what()));
}

void ImageTally::add(const ImageTally& other) {
    images += other.images;
    for (size_t i = 0; i < noted.size(); ++i) noted[i] += other.noted[i];
    for (size_t i = 0; i < faults.size(); ++i) faults[i] += other.faults[i];
    classes.resize(std::max(classes.size(), other.classes.size()));
    for (size_t i = 0; i < other.classes.size(); ++i) classes[i] += other.classes[i];
    for (const std::string& example : other.examples)
        if (examples.size() < most_examples) examples.push_back(example);
}

void leave_out_unreadable(ImageList& list, const ImageRules& rules, ImageTally& tally,
                          const std::function<void()>& progress) {
    Pixels pixels(rules, list.sources);
    std::erase_if(list.images, [&](const ListedImage& image) {
        bool bad = false;
        try {
            pixels.read(image);
        } catch (const BadImage& why) {
            bad = true;
            tally.leave_out(image.name, why);
        }
        progress();
        return bad;
    });
}

std::string text_of(const ShardRecord& record) {
    const nlohmann::json json{{"name", record.name},
                              {"split", record.split},
                              {"bytes", record.bytes},
                              {"images", record.tally.images},
                              {"noted", record.tally.noted},
                              {"faults", record.tally.faults},
                              {"classes", record.tally.classes},
                              {"examples", record.tally.examples},
                              {"pixels", record.pixels.values()}};
    // File names may contain any bytes.
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ShardRecord record_of(const std::string& text) {
    const auto json = nlohmann::json::parse(text);
    ShardRecord record{json.at("name"), json.at("split"), json.at("bytes")};
    record.tally.images = json.at("images");
    record.tally.noted = json.at("noted").get<std::array<int64_t, image_notes>>();
    record.tally.faults = json.at("faults").get<std::array<int64_t, image_faults>>();
    record.tally.classes = json.at("classes").get<std::vector<int64_t>>();
    record.tally.examples = json.at("examples").get<std::vector<std::string>>();
    std::vector<int64_t> pixels = json.at("pixels").get<std::vector<int64_t>>();
    if (pixels.size() != record.pixels.values().size()) throw std::invalid_argument("counts of other channels");
    record.pixels = PixelCounts(std::move(pixels));
    return record;
}

ShardRecord convert_shard(const AssignedShard& shard, const std::vector<FilePlace>& sources, const ImageRules& rules,
                          const Source& source, const std::function<void(hid_t)>& describe, const FilePlace& place,
                          const std::function<void()>& progress) {
    ShardRecord record{shard.name(), shard.split};
    Converter converter(rules, sources, place);
    for (const ListedImage& image : shard.images) {
        try {
            converter.add(image, record);
        } catch (const BadImage& bad) {
            if (rules.strict)
                fail(Exit::bad_input, shortened(image.name) + ": " + bad.what() +
                                          "; repair or remove it, or omit --strict to leave such files out");
            record.tally.leave_out(image.name, bad);
        }
        progress();
    }
    if (record.tally.images == 0)
        fail(Exit::bad_input, "none of the " + std::to_string(shard.images.size()) + " images of " + record.name +
                                  " can be read, as " + record.tally.examples.at(0) + "; check the source");
    converter.writer().finish({"", shard.split, shard.shard, shard.shards, 0}, source, describe);
    std::error_code error;
    record.bytes = int64_t(fs::file_size(place.opened, error));
    if (error) fail(Exit::io, place.shown + ": is gone (" + error.message() + "); was its folder removed?");
    return record;
}

}  // namespace convoy
