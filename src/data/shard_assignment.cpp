#include "data/shard_assignment.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>

#include "base/philox.h"

namespace convoy {
namespace {

// The fourth word of Philox's counter.
constexpr uint32_t purpose_rows = 0x726f7773;
constexpr int64_t shard_bytes = int64_t(1) << 30;

/// Returns the images in the order of random numbers of (seed, split, index in the list).
std::vector<ListedImage> permuted(std::vector<ListedImage> images, uint64_t seed, uint32_t split) {
    std::vector<std::pair<uint64_t, size_t>> order;
    order.reserve(images.size());
    for (size_t i = 0; i < images.size(); ++i) {
        const Random4 draw = philox(seed, uint32_t(i), split, 0, purpose_rows);
        order.emplace_back(uint64_t(draw.word[0]) << 32 | draw.word[1], i);
    }
    std::sort(order.begin(), order.end());
    std::vector<ListedImage> result;
    result.reserve(images.size());
    for (const auto& [draw, i] : order) result.push_back(std::move(images[i]));
    return result;
}

/// Removes `count` of the permuted rows for tests: each class's share, rounded up or down. Takes
/// every (rows / count)-th row, going through them class by class. A class with one image keeps it
/// for training. If all classes have one image, takes the last row.
std::vector<ListedImage> take_test_rows(std::vector<ListedImage>& rows, int64_t count) {
    std::map<int32_t, std::vector<size_t>> by_class;
    for (size_t i = 0; i < rows.size(); ++i) by_class[rows[i].class_index].push_back(i);
    std::vector<size_t> order;
    for (const auto& [label, places] : by_class)
        if (places.size() > 1) order.insert(order.end(), places.begin(), places.end());
    if (order.empty()) order.push_back(rows.size() - 1);
    const auto candidates = int64_t(order.size());
    count = std::min(count, candidates);
    std::vector<bool> taken(rows.size());
    for (int64_t i = 0; i < candidates; ++i) taken[order[i]] = (i + 1) * count / candidates > i * count / candidates;
    std::vector<ListedImage> train, test;
    for (size_t i = 0; i < rows.size(); ++i) (taken[i] ? test : train).push_back(std::move(rows[i]));
    rows = std::move(train);
    return test;
}

/// Estimates the bytes of an image in a shard.
int64_t expected_bytes(const ListedImage& image, const ImageRules& rules) {
    if (rules.layout == ImageLayout::jpeg) return image.bytes;
    const Resize& r = rules.resize;
    if (r.kind == Resize::Kind::exact) return int64_t(r.height) * r.width * 3;
    if (r.kind == Resize::Kind::short_side) return int64_t(r.short_side) * r.short_side * 4;  // 3 channels, 4:3
    return image.bytes * 10;
}

/// Returns a lower bound of the bytes of an image in a shard; 0 if it is not known.
uint64_t least_bytes(const ListedImage& image, const ImageRules& rules) {
    const Resize& r = rules.resize;
    if (rules.layout == ImageLayout::jpeg) return uint64_t(image.bytes);
    if (r.kind == Resize::Kind::exact) return uint64_t(r.height) * uint64_t(r.width) * 3;
    return r.kind == Resize::Kind::short_side ? uint64_t(r.short_side) * uint64_t(r.short_side) * 3 : 0;
}

int64_t shards_for(const std::vector<ListedImage>& images, const ImageRules& rules) {
    int64_t bytes = 0;
    for (const ListedImage& image : images) bytes += expected_bytes(image, rules);
    return std::clamp<int64_t>((bytes + shard_bytes - 1) / shard_bytes, 1, int64_t(images.size()));
}

void cut(std::vector<ListedImage> images, const std::string& split, int64_t shards, std::vector<AssignedShard>& to) {
    const int64_t count = int64_t(images.size());
    for (int64_t i = 0; i < shards; ++i) {
        AssignedShard shard{split, int(i), int(shards)};
        for (int64_t row = count * i / shards; row < count * (i + 1) / shards; ++row)
            shard.images.push_back(std::move(images[row]));
        to.push_back(std::move(shard));
    }
}

constexpr char end_of_field = '\0';

/// Removes the next field from `text` and returns it.
std::string_view field(std::string_view& text) {
    const size_t end = text.find(end_of_field);
    require(end != std::string_view::npos, "an assignment's text has all of its fields");
    const std::string_view first = text.substr(0, end);
    text.remove_prefix(end + 1);
    return first;
}

int64_t number(std::string_view& text) {
    const std::string_view digits = field(text);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    require(error == std::errc() && end == digits.data() + digits.size(), "the numbers of an assignment are digits");
    return value;
}

}  // namespace

uint64_t least_bytes(const std::vector<AssignedShard>& shards, const std::string& finished, const ImageRules& rules) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < shards.size(); ++i)
        if (finished[i] != 'y')
            for (const ListedImage& image : shards[i].images) bytes += least_bytes(image, rules);
    return bytes;
}

ShardAssignment assign_shards(ImageList train, ImageList test, const ShardOptions& options, const ImageRules& rules) {
    ShardAssignment assignment;
    for (ListedImage& image : test.images) image.source += int32_t(train.sources.size());
    assignment.sources = std::move(train.sources);
    assignment.sources.insert(assignment.sources.end(), test.sources.begin(), test.sources.end());
    std::vector<ListedImage> rows = permuted(std::move(train.images), options.seed, 0);
    std::vector<ListedImage> test_rows = permuted(std::move(test.images), options.seed, 1);
    if (test_rows.empty()) {
        if (rows.size() < 2) fail(Exit::bad_input, "there is one image; a data set has training and test images");
        const int64_t share = std::llround(double(rows.size()) * options.test_share);
        test_rows = take_test_rows(rows, std::clamp<int64_t>(share, 1, int64_t(rows.size()) - 1));
    }
    const int64_t shards = options.train_shards > 0 ? options.train_shards : shards_for(rows, rules);
    if (shards > int64_t(rows.size()))
        fail(Exit::usage, "--shards " + std::to_string(shards) + ": there are " + std::to_string(rows.size()) +
                              " training images; take at most as many shards");
    const int64_t rows_a_shard = (int64_t(rows.size()) + shards - 1) / shards,
                  test_shards = (int64_t(test_rows.size()) + rows_a_shard - 1) / rows_a_shard;
    cut(std::move(rows), "train", shards, assignment.shards);
    cut(std::move(test_rows), "test", test_shards, assignment.shards);
    return assignment;
}

std::string text_of(const ShardAssignment& assignment) {
    std::string text;
    const auto put = [&](const std::string& value) {
        text += value;
        text += end_of_field;
    };
    put(std::to_string(assignment.sources.size()));
    for (const FilePlace& source : assignment.sources) put(source.shown);
    put(std::to_string(assignment.shards.size()));
    for (const AssignedShard& shard : assignment.shards) {
        put(shard.split);
        for (const int64_t value : {int64_t(shard.shard), int64_t(shard.shards), int64_t(shard.images.size())})
            put(std::to_string(value));
        for (const ListedImage& image : shard.images) {
            put(image.name);
            for (const int64_t value : {int64_t(image.class_index), int64_t(image.source), image.offset, image.bytes})
                put(std::to_string(value));
        }
    }
    return text;
}

ShardAssignment assignment_of(const std::string& whole, int rank, int ranks) {
    std::string_view text = whole;
    ShardAssignment assignment;
    for (int64_t left = number(text); left > 0; --left) assignment.sources.emplace_back(std::string(field(text)));
    const int64_t shards = number(text);
    for (int64_t i = 0; i < shards; ++i) {
        AssignedShard shard;
        shard.split = field(text);
        shard.shard = int(number(text));
        shard.shards = int(number(text));
        for (int64_t left = number(text); left > 0; --left) {
            ListedImage image;
            image.name = field(text);
            image.class_index = int32_t(number(text));
            image.source = int32_t(number(text));
            image.offset = number(text);
            image.bytes = number(text);
            if (i % ranks == rank) shard.images.push_back(std::move(image));
        }
        assignment.shards.push_back(std::move(shard));
    }
    return assignment;
}

}  // namespace convoy
