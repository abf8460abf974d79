// Names of shards, the manifest, and the check that two splits have the same shape.
#include "data/shard.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/input_file.h"
#include "base/json_shape.h"
#include "data/shard_checks.h"

namespace convoy {
namespace fs = std::filesystem;

std::string manifest_text(const std::string& dir) {
    const std::string path = dir + "/manifest.json", advice = "'convoy convert' makes a data set with one";
    std::error_code error;
    if (fs::status(path, error).type() == fs::file_type::not_found)
        fail(Exit::bad_input, path + ": is missing; " + advice);
    return text_of_input(path, 64 << 20, advice);
}

std::string shard_name(const std::string& split, int shard, int shards) {
    char number[32];
    std::snprintf(number, sizeof number, "-%05d-of-%05d.h5", shard, shards);
    return split + number;
}

bool parse_shard_name(const std::string& file, std::string& split, int& shard, int& shards) {
    for (const char* name : {"train", "test"}) {
        int end = 0;
        const std::string pattern = std::string(name) + "-%5d-of-%5d.h5%n";
        if (std::sscanf(file.c_str(), pattern.c_str(), &shard, &shards, &end) != 2 || size_t(end) != file.size())
            continue;
        if (shard < 0 || shard >= shards || file != shard_name(name, shard, shards)) continue;
        split = name;
        return true;
    }
    return false;
}

std::vector<ManifestEntry> read_manifest(const std::string& dir) {
    const std::string text = manifest_text(dir);
    try {
        if (!has_modest_shape(text)) throw std::invalid_argument("nested deeply");
        const auto json = nlohmann::json::parse(text);
        if (json.at("format") != "convoy-manifest" || json.at("version") != 1)
            throw std::invalid_argument("not a version 1 convoy-manifest");
        std::vector<ManifestEntry> entries;
        for (const auto& item : json.at("shards"))
            entries.push_back(
                {item.at("file"), item.at("split"), item.at("images"), item.at("bytes"), item.at("sha256")});
        for (const ManifestEntry& entry : entries) {
            std::string split;
            int shard = 0, shards = 0;
            if (!parse_shard_name(entry.file, split, shard, shards) || split != entry.split)
                throw std::invalid_argument("bad shard name");
        }
        return entries;
    } catch (const std::exception& error) {
        fail(Exit::bad_input, dir + "/manifest.json: is damaged (" + std::string(error.what()).substr(0, 120) +
                                  "); convert the data set again");
    }
}

void check_same_shape(const SplitInfo& a, const SplitInfo& b, const std::string& dir) {
    const auto shape = [](const SplitInfo& info) {
        if (info.ragged)
            return info.split + " images differ in size (" + info.codec + ") and are of " +
                   std::to_string(info.classes) + " classes";
        return info.split + " images are " + std::to_string(info.height) + "x" + std::to_string(info.width) + "x" +
               std::to_string(info.channels) + " of " + std::to_string(info.classes) + " classes";
    };
    const bool same_size = a.ragged || (a.height == b.height && a.width == b.width);
    if (a.type != b.type || a.ragged != b.ragged || a.codec != b.codec || !same_size || a.channels != b.channels ||
        a.classes != b.classes || a.class_names != b.class_names || a.mean != b.mean || a.stddev != b.stddev)
        fail(Exit::bad_input,
             dir + ": " + shape(a) + ", " + shape(b) + ": the splits are of different data sets; convert again");
}

}  // namespace convoy
