// convoy verify DIR: reads every byte of a data set, and prints a summary. Checks the manifest's
// SHA-256 of each file, the Fletcher-32 of each chunk, and the mean and deviation of the pixels.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/folder.h"
#include "base/input_file.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "data/digest.h"
#include "data/other_folder.h"
#include "data/shard.h"

namespace convoy {
namespace fs = std::filesystem;
namespace po = boost::program_options;
namespace {

/// The first problem of each file of a data set.
class Problems {
public:
    explicit Problems(const std::string& dir) : dir_(dir) {}
    /// Runs `check`. If it throws an Error, keeps that as a problem.
    template <class Check> void of(const Check& check) {
        try {
            check();
        } catch (const Error& problem) {
            add(problem);
        }
    }
    /// Throws the problem if there is only one. Else prints each, and throws their number as text.
    void report() const {
        if (found_.size() == 1) throw Error(found_[0]);
        for (const Error& problem : found_) std::fprintf(stderr, "convoy: %s\n", problem.what());
        if (!found_.empty())
            fail(found_[0].code, dir_ + ": has the " + std::to_string(found_.size()) + " problems above");
    }

private:
    std::string file_of(const Error& problem) const {
        const std::string text = problem.what();
        return text.substr(0, text.find(": ", dir_.size()));
    }
    void add(const Error& problem) {
        if (files_.insert(file_of(problem)).second) found_.push_back(problem);
    }

    const std::string dir_;
    std::vector<Error> found_;
    std::set<std::string> files_;  ///< files that have a problem
};

void verify_file(const std::string& path, const ManifestEntry& entry) {
    std::error_code error;
    if (fs::status(path, error).type() == fs::file_type::not_found)
        fail(Exit::bad_input, path + ": is in manifest.json, but missing; convert the data set again");
    // checked before all bytes are read, because a sparse file of any size takes no room on a disk
    const uint64_t bytes = size_of_input(path, "convert the data set again");
    if (bytes != uint64_t(entry.bytes))
        fail(Exit::bad_input, path + ": has " + std::to_string(bytes) + " bytes, manifest.json says " +
                                  std::to_string(entry.bytes) +
                                  ": it is truncated or of another data set; convert the data set again");
    if (digest_of_file(Digest::Kind::sha256, path) != entry.sha256)
        fail(Exit::bad_input, path +
                                  ": its SHA-256 is not the one in manifest.json: it is damaged or was replaced; "
                                  "convert the data set again");
}

/// Compares each file with its line in the manifest. Returns the total bytes.
int64_t verify_files(const std::string& dir, const std::vector<ManifestEntry>& manifest, Problems& problems) {
    std::set<std::string> listed;
    int64_t bytes = 0;
    for (const ManifestEntry& entry : manifest) {
        problems.of([&] {
            if (!listed.insert(entry.file).second)
                fail(Exit::bad_input,
                     dir + "/manifest.json: lists " + entry.file + " twice; convert the data set again");
            verify_file(dir + "/" + entry.file, entry);
        });
        bytes += entry.bytes;
    }
    for (const std::string& name : files_in(dir, "check the path"))
        if (name != "manifest.json" && !listed.contains(name))
            problems.of([&] {
                fail(Exit::bad_input,
                     dir + "/" + name + ": is not in manifest.json; move it away, or convert the data set again");
            });
    return bytes;
}

/// Facts that are found by reading all of a split.
struct Seen {
    std::vector<int64_t> classes;  ///< number of images of each class
    PixelCounts pixels;            ///< of uint8 images
};

/// Returns the end of a block of rows that begins at `first` and has about `bytes` of pixels.
int64_t end_of_block(const SplitInfo& info, const std::vector<ImagePlace>& places, int64_t first, int64_t bytes) {
    if (!info.ragged) return std::min(info.images, first + std::max<int64_t>(1, bytes / int64_t(info.row_bytes())));
    int64_t end = first + 1;
    while (end < info.images && places[end].offset - places[first].offset < bytes) ++end;
    return end;
}

Seen read_everything(const SplitReader& reader) {
    constexpr int64_t block_bytes = 4 << 20;
    const SplitInfo& info = reader.info();
    const std::vector<ImagePlace> places = info.ragged ? reader.places() : std::vector<ImagePlace>();
    Seen seen{std::vector<int64_t>(static_cast<size_t>(info.classes), 0), PixelCounts(info.channels)};
    std::vector<uint8_t> pixels;
    std::vector<int32_t> labels;
    for (int64_t row = 0, end; row < info.images; row = end) {
        end = end_of_block(info, places, row, block_bytes);
        const auto offset = [&](int64_t i) {
            if (!info.ragged) return i * int64_t(info.row_bytes());
            return i < info.images ? places[i].offset : info.pixel_bytes;
        };
        pixels.resize(size_t(offset(end) - offset(row)));
        labels.resize(size_t(end - row));
        reader.read(row, end - row, pixels.data(), labels.data());
        if (info.type == DType::u8) seen.pixels.add(pixels.data(), pixels.size());
        for (const int32_t label : labels) ++seen.classes[label];
    }
    return seen;
}

void verify_statistics(const SplitInfo& info, const Seen& read, const std::string& dir) {
    const size_t channels = size_t(info.channels);
    const PixelStatistics of_vectors{std::vector<double>(channels, 0), std::vector<double>(channels, 1)},
        seen = info.type == DType::f32 ? of_vectors : read.pixels.statistics();
    for (size_t c = 0; c < seen.mean.size(); ++c)
        if (std::abs(seen.mean[c] - double(info.mean[c])) > 1e-5 ||
            std::abs(seen.stddev[c] - double(info.stddev[c])) > 1e-5)
            fail(Exit::bad_input, dir + ": mean or stddev of channel " + std::to_string(c) +
                                      " is not that of the training images; convert the data set again");
}

std::string sizes_of(const SplitInfo& info) {
    if (!info.ragged) return formatted("%dx%dx%d", info.height, info.width, info.channels);
    return formatted("up to %dx%dx%d, %s, %s bytes of pixels", info.height, info.width, info.channels,
                     info.codec.c_str(), grouped(size_t(info.pixel_bytes)).c_str());
}

void print_split(Terminal& terminal, const SplitInfo& info, const std::vector<int64_t>& counts) {
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    terminal.line(formatted("%-6s %9lld %s %s, %d classes of %lld to %lld images", info.split.c_str(),
                            (long long)info.images, info.type == DType::f32 ? "vectors" : "images",
                            sizes_of(info).c_str(), info.classes, (long long)*least, (long long)*most));
    constexpr size_t most_lines = 20;
    for (size_t i = 0; i < std::min(counts.size(), most_lines); ++i)
        terminal.line(formatted("  %-14s %7lld", info.class_names[i].c_str(), (long long)counts[i]));
    if (counts.size() > most_lines) terminal.line(formatted("  … and %zu more", counts.size() - most_lines));
}

po::options_description description() {
    po::options_description options;
    options.add_options()("dir", po::value<std::string>()->value_name("DIR"), "the data set; also as a plain argument");
    return options;
}

}  // namespace

OptionGroups options_of_verify() { return one_group(description()); }

int verify(const std::vector<std::string>& args) {
    const po::variables_map values = parse(description(), args, po::positional_options_description().add("dir", 1));
    const std::string dir = required_value(values, "dir");
    std::error_code error;
    const fs::file_type type = fs::status(dir, error).type();
    if (type != fs::file_type::directory && type != fs::file_type::none)  // none: files_in() says why
        fail(Exit::bad_input, dir + ": is not a folder; give the folder of a data set");
    files_in(dir, "give the folder of a data set");
    check_holds_shards(dir);
    const std::vector<ManifestEntry> manifest = read_manifest(dir);
    std::optional<SplitInfo> train;
    Terminal terminal(stdout, true);
    Problems problems(dir);
    for (const std::string split : {"train", "test"})
        problems.of([&] {
            const SplitReader reader(dir, split);
            if (train) check_same_shape(*train, reader.info(), dir);
            const Seen seen = read_everything(reader);
            if (split == "train") verify_statistics(reader.info(), seen, dir);
            print_split(terminal, reader.info(), seen.classes);
            if (split == "train") train = reader.info();
        });
    const int64_t bytes = verify_files(dir, manifest, problems);
    problems.report();
    terminal.line(formatted("%s: ok, %zu files, %lld bytes, every checksum matches", dir.c_str(), manifest.size(),
                            (long long)bytes));
    return int(Exit::done);
}

}  // namespace convoy
