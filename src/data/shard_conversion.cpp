#include "data/shard_conversion.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/input_bytes.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr int64_t most_file_bytes = 256 << 20;

/// All of an image file. Throws BadImage for one that is too large, and Error for one that cannot
/// be read: what was listed is there, or the source is not.
void read_image(const ListedImage& image, const std::vector<std::string>& sources, std::vector<uint8_t>& to) {
    const std::string& source = sources.at(size_t(image.source));
    const bool member = image.offset >= 0;
    const InputBytes file(member ? source : (fs::path(source) / image.name).string());
    const int64_t bytes = member ? image.bytes : file.size();
    if (bytes > most_file_bytes) throw BadImage("has " + std::to_string(bytes) + " bytes, more than 256 MiB");
    to.resize(size_t(bytes));
    file.read(member ? image.offset : 0, bytes, to.data());
}

/// One image after the other, in memory that is used again.
class Converter {
public:
    Converter(const ImageRules& rules, const std::vector<std::string>& sources, const std::string& path)
        : rules_(rules), sources_(sources), writer_(path, rules.layout, rules.resize.height, rules.resize.width) {}

    /// Throws BadImage, and has then changed nothing.
    void add(const ListedImage& image, ShardRecord& record) {
        read_image(image, sources_, file_);
        decode_image(file_, decoded_);
        const bool kept = rules_.layout == ImageLayout::jpeg;
        if (kept && int64_t(decoded_.pixels.size()) > int64_t(file_.size()) * most_pixel_bytes_a_byte)
            throw BadImage("packs its pixels too tightly to be kept as it is");
        const RgbImage& shown = !kept && resize(decoded_, rules_.resize, resized_) ? resized_ : decoded_;
        writer_.add(shown, file_, image.class_index);
        record.pixels.add(shown.pixels.data(), shown.pixels.size());
        ++record.tally.images;
        for (int i = 0; i < image_notes; ++i) record.tally.noted[size_t(i)] += decoded_.has(ImageNote(i));
    }
    ImageShardWriter& writer() { return writer_; }

private:
    const ImageRules& rules_;
    const std::vector<std::string>& sources_;
    ImageShardWriter writer_;
    std::vector<uint8_t> file_;
    RgbImage decoded_, resized_;
};

}  // namespace

void ImageTally::add(const ImageTally& other) {
    images += other.images;
    damaged += other.damaged;
    for (size_t i = 0; i < noted.size(); ++i) noted[i] += other.noted[i];
    for (const std::string& example : other.examples)
        if (examples.size() < most_examples) examples.push_back(example);
}

std::string text_of(const ShardRecord& record) {
    const nlohmann::json json{{"name", record.name},
                              {"split", record.split},
                              {"bytes", record.bytes},
                              {"images", record.tally.images},
                              {"damaged", record.tally.damaged},
                              {"noted", record.tally.noted},
                              {"examples", record.tally.examples},
                              {"pixels", record.pixels.values()}};
    // names of files may be of any bytes
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ShardRecord record_of(const std::string& text) {
    const auto json = nlohmann::json::parse(text);
    ShardRecord record{json.at("name"), json.at("split"), json.at("bytes")};
    record.tally.images = json.at("images");
    record.tally.damaged = json.at("damaged");
    record.tally.noted = json.at("noted").get<std::array<int64_t, image_notes>>();
    record.tally.examples = json.at("examples").get<std::vector<std::string>>();
    std::vector<int64_t> pixels = json.at("pixels").get<std::vector<int64_t>>();
    if (pixels.size() != record.pixels.values().size()) throw std::invalid_argument("counts of other channels");
    record.pixels = PixelCounts(std::move(pixels));
    return record;
}

ShardRecord convert_shard(const PlannedShard& shard, const std::vector<std::string>& sources, const ImageRules& rules,
                          const Source& source, const std::function<void(hid_t)>& describe, const std::string& path,
                          const std::function<void()>& progress) {
    ShardRecord record{shard.name(), shard.split};
    Converter converter(rules, sources, path);
    for (const ListedImage& image : shard.images) {
        try {
            converter.add(image, record);
        } catch (const BadImage& bad) {
            const std::string what = image.name + ": " + bad.what();
            if (rules.strict)
                fail(Exit::bad_input, what + "; mend or remove it, or leave out --strict to have such files left out");
            ++record.tally.damaged;
            if (record.tally.examples.size() < ImageTally::most_examples)
                record.tally.examples.push_back(printable(what));
        }
        progress();
    }
    if (record.tally.images == 0)
        fail(Exit::bad_input, "none of the " + std::to_string(shard.images.size()) + " images of " + record.name +
                                  " can be read, as " + record.tally.examples.at(0) + "; check the source");
    converter.writer().finish({"", shard.split, shard.shard, shard.shards, 0}, source, describe);
    record.bytes = int64_t(fs::file_size(path));
    return record;
}

}  // namespace convoy
