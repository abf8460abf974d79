// convoy verify DIR: reads every byte of a data set, and prints what it saw. Compares the
// manifest's SHA-256 of each file, the Fletcher-32 of each chunk, and the mean and deviation of the
// pixels.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>

#include "base/error.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "data/digest.h"
#include "data/shard.h"

namespace convoy {
namespace fs = std::filesystem;
namespace po = boost::program_options;
namespace {

/// Compares each file with its line in the manifest; returns the bytes of all.
int64_t verify_files(const std::string& dir, const std::vector<ManifestEntry>& manifest) {
    std::set<std::string> listed;
    int64_t bytes = 0;
    for (const ManifestEntry& entry : manifest) {
        const std::string path = dir + "/" + entry.file;
        if (!listed.insert(entry.file).second)
            fail(Exit::bad_input, dir + "/manifest.json: lists " + entry.file + " twice; convert the data set again");
        std::error_code error;
        if (!fs::is_regular_file(path, error))
            fail(Exit::bad_input, path + ": is in manifest.json, but missing; convert the data set again");
        if (digest_of_file(Digest::Kind::sha256, path) != entry.sha256)
            fail(Exit::bad_input, path +
                                      ": its SHA-256 is not the one in manifest.json: it is damaged or was replaced; "
                                      "convert the data set again");
        bytes += entry.bytes;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(dir)) {
        const std::string name = entry.path().filename();
        if (name != "manifest.json" && !listed.contains(name))
            fail(Exit::bad_input,
                 dir + "/" + name + ": is not in manifest.json; remove it or convert the data set again");
    }
    return bytes;
}

/// Reads all rows; returns how many images each class has.
std::vector<int64_t> count_classes(const SplitReader& reader) {
    const SplitInfo& info = reader.info();
    const auto image_bytes = int64_t(info.row_bytes());
    const int64_t step = std::max<int64_t>(1, (4 << 20) / image_bytes);
    std::vector<uint8_t> images(size_t(step * image_bytes));
    std::vector<int32_t> labels(static_cast<size_t>(step));
    std::vector<int64_t> counts(static_cast<size_t>(info.classes), 0);
    for (int64_t row = 0; row < info.images; row += step) {
        const int64_t rows = std::min(step, info.images - row);
        reader.read(row, rows, images.data(), labels.data());
        for (int64_t i = 0; i < rows; ++i) ++counts[size_t(labels[size_t(i)])];
    }
    return counts;
}

void verify_statistics(const SplitReader& reader, const std::string& dir) {
    const SplitInfo& info = reader.info();
    Split split{info.split, info.images, info.height, info.width, info.channels, nullptr, info.type};
    split.read = [&](int64_t first, int64_t rows, uint8_t* images, int32_t* labels) {
        reader.read(first, rows, images, labels);
    };
    const PixelStatistics seen = pixel_statistics(split);
    for (size_t c = 0; c < seen.mean.size(); ++c)
        if (std::abs(seen.mean[c] - double(info.mean[c])) > 1e-5 ||
            std::abs(seen.stddev[c] - double(info.stddev[c])) > 1e-5)
            fail(Exit::bad_input, dir + ": mean or stddev of channel " + std::to_string(c) +
                                      " is not that of the training images; convert the data set again");
}

void print_split(Terminal& terminal, const SplitInfo& info, const std::vector<int64_t>& counts) {
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    terminal.line(formatted("%-6s %9lld %s %dx%dx%d, %d classes of %lld to %lld images", info.split.c_str(),
                            (long long)info.images, info.type == DType::f32 ? "vectors" : "images", info.height,
                            info.width, info.channels, info.classes, (long long)*least, (long long)*most));
    constexpr size_t most_lines = 20;
    for (size_t i = 0; i < std::min(counts.size(), most_lines); ++i)
        terminal.line(formatted("  %-14s %7lld", info.class_names[i].c_str(), (long long)counts[i]));
    if (counts.size() > most_lines) terminal.line(formatted("  … and %zu more", counts.size() - most_lines));
}

}  // namespace

int verify(const std::vector<std::string>& args) {
    po::options_description options("options of verify");
    options.add_options()("dir", po::value<std::string>()->value_name("DIR"), "the data set; also as plain argument");
    options.add_options()("help", po::bool_switch(), "print this");
    const po::variables_map values = parse(options, args, po::positional_options_description().add("dir", 1));
    if (values["help"].as<bool>()) {
        std::cout << "usage: convoy verify DIR\nReads all of a data set and compares every checksum.\n\n" << options;
        return int(Exit::done);
    }
    const std::string dir = required_value(values, "dir");
    std::error_code error;
    if (!fs::is_directory(dir, error)) fail(Exit::bad_input, dir + ": is not a folder; give the folder of a data set");
    const std::vector<ManifestEntry> manifest = read_manifest(dir);
    std::optional<SplitInfo> train;
    Terminal terminal(stdout, true);
    for (const std::string split : {"train", "test"}) {
        const SplitReader reader(dir, split);
        if (train) check_same_shape(*train, reader.info(), dir);
        if (!train) verify_statistics(reader, dir);
        const std::vector<int64_t> counts = count_classes(reader);
        print_split(terminal, reader.info(), counts);
        if (!train) train = reader.info();
    }
    const int64_t bytes = verify_files(dir, manifest);
    terminal.line(formatted("%s: ok, %zu files, %lld bytes, every checksum matches", dir.c_str(), manifest.size(),
                            (long long)bytes));
    return int(Exit::done);
}

}  // namespace convoy
