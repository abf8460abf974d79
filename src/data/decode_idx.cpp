// Decodes IDX files (MNIST and its relatives): a big-endian header, then bytes. A file's content,
// not its name, decides if it is gzipped. Its length must match the header exactly. The claimed
// size is checked against the file's size before memory is reserved, and memory is used as bytes
// arrive.
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/memory_budget.h"
#include "data/decode.h"
#include "data/digest.h"
#include "data/gzip.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t most_bytes = uint64_t(8) << 30;

/// MD5 of the four uncompressed MNIST files, in the order in which they are read.
constexpr std::array<const char*, 4> mnist_md5 = {
    "6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624", "2646ac647ad5339dbf082846283269ea",
    "27ae3e4e09519cfbb04c329615203637"};

struct Idx {
    std::string path;
    std::vector<uint32_t> dims;
    std::vector<uint8_t> data;
    std::string md5;     ///< of the uncompressed file
    std::string sha256;  ///< of the file itself
};

/// Finds train-images-idx3-ubyte, for example, or that name with .gz or with a dot before "idx".
std::string find_file(const std::string& folder, const std::string& stem, const std::string& kind) {
    std::error_code error;
    for (const char* joint : {"-", "."})
        for (const char* suffix : {"", ".gz"})
            if (const fs::path path = fs::path(folder) / (stem + joint + kind + suffix);
                fs::is_regular_file(path, error))
                return path;
    fail(Exit::bad_input,
         folder + "/" + stem + "-" + kind + "[.gz]: is missing; give --from the folder with the four IDX files");
}

/// Throws if `bytes` do not fit in memory. Linux would grant them, and kill the process when they
/// are used.
void check_memory(uint64_t bytes, const std::string& path) {
    std::vector<MemoryBudget::Part> limits;
    for (MemoryLimit& limit : memory_limits()) limits.push_back({std::move(limit)});
    MemoryBudget(std::move(limits)).take_or_fail(bytes, path, "use a smaller data set");
}

/// Reads an IDX file of bytes with `rank` dimensions.
Idx read_idx(const std::string& path, uint32_t rank) {
    GzipReader file(path, GzipReader::Digests::of_file);
    Digest md5(Digest::Kind::md5);
    std::array<uint8_t, 16> header{};
    const size_t header_bytes = 4 + 4 * rank;
    const size_t got = file.read(header.data(), header_bytes);
    if (got != header_bytes)
        fail(Exit::bad_input,
             path + ": ends within its header, at byte " + std::to_string(got) + "; it is truncated, get it again");
    md5.update(header.data(), header_bytes);
    const auto word = [&](size_t i) {
        return uint32_t(header[i]) << 24 | uint32_t(header[i + 1]) << 16 | uint32_t(header[i + 2]) << 8 | header[i + 3];
    };
    if (word(0) != (0x800u | rank))
        fail(Exit::bad_input, path + ": starts with " + std::to_string(word(0)) + " instead of " +
                                  std::to_string(0x800u | rank) + ": this is not an IDX file of " +
                                  (rank == 3 ? "images" : "labels"));
    Idx idx{path, {}, {}, "", ""};
    uint64_t bytes = 1;
    for (uint32_t i = 0; i < rank; ++i) {
        idx.dims.push_back(word(4 + 4 * i));
        if (idx.dims[i] == 0 || (i > 0 && idx.dims[i] > 4096))
            fail(Exit::bad_input, path + ": dimension " + std::to_string(i) + " is " + std::to_string(idx.dims[i]) +
                                      "; the file is damaged");
        bytes *= idx.dims[i];
    }
    // Labels also become 32-bit numbers, in memory and in shards.
    const uint64_t needed = rank == 1 ? bytes * (1 + sizeof(int32_t)) : bytes;
    if (needed > std::min(most_bytes, most_unpacked(file.file_bytes())))
        fail(Exit::bad_input, path + ": its header claims " + std::to_string(bytes) + " bytes, which need more than " +
                                  std::to_string(GzipReader::most_growth) +
                                  " times its size; the file is damaged, or else unpack it");
    check_memory(needed, path);
    idx.data.reserve(bytes + 1);
    constexpr size_t step = 1 << 22;
    for (bool more = true; more;) {  // tries to read one byte more than claimed
        const size_t filled = idx.data.size(), want = std::min<size_t>(step, bytes + 1 - filled);
        idx.data.resize(filled + want);
        const size_t read = file.read(&idx.data[filled], want);
        idx.data.resize(filled + read);
        more = read == want && idx.data.size() <= bytes;
    }
    if (idx.data.size() != bytes)
        fail(Exit::bad_input, path + ": its header says " + std::to_string(bytes) + " bytes of data, it holds " +
                                  (idx.data.size() > bytes ? "more" : std::to_string(idx.data.size())) +
                                  "; get it again");
    md5.update(idx.data.data(), idx.data.size());
    idx.md5 = md5.hex();
    idx.sha256 = file.sha256();
    return idx;
}

Split read_split(const std::string& folder, const std::string& split, const std::string& stem, int32_t classes,
                 Source& source, std::vector<std::string>& md5) {
    Idx images = read_idx(find_file(folder, stem + "-images", "idx3-ubyte"), 3);
    const Idx labels = read_idx(find_file(folder, stem + "-labels", "idx1-ubyte"), 1);
    if (images.dims[0] != labels.dims[0])
        fail(Exit::bad_input, labels.path + ": has " + std::to_string(labels.dims[0]) + " labels for " +
                                  std::to_string(images.dims[0]) + " images in " + images.path + "; get both again");
    for (size_t row = 0; row < labels.data.size(); ++row)
        if (labels.data[row] >= classes)
            fail(Exit::bad_input, labels.path + ": row " + std::to_string(row) + " has label " +
                                      std::to_string(labels.data[row]) + ", allowed is 0 to " +
                                      std::to_string(classes - 1) +
                                      "; get it again, or name all classes with --class-names");
    for (const Idx* idx : {&std::as_const(images), &labels}) {
        source.files.push_back(fs::path(idx->path).filename());
        source.sha256.push_back(idx->sha256);
        md5.push_back(idx->md5);
    }
    return split_in_memory(split, int(images.dims[1]), int(images.dims[2]), 1, std::move(images.data),
                           {labels.data.begin(), labels.data.end()});
}

}  // namespace

Source decode_idx(const std::string& from, const std::vector<std::string>& class_names) {
    std::error_code error;
    if (!fs::is_directory(from, error))
        fail(Exit::bad_input, from + ": is not a folder; give --from the folder with the four IDX files");
    Source source;
    source.class_names = class_names;
    if (class_names.empty())
        for (char digit = '0'; digit <= '9'; ++digit) source.class_names.emplace_back(1, digit);
    const auto classes = int32_t(source.class_names.size());
    std::vector<std::string> md5;
    source.splits.push_back(read_split(from, "train", "train", classes, source, md5));
    source.splits.push_back(read_split(from, "test", "t10k", classes, source, md5));
    const Split &train = source.splits[0], &test = source.splits[1];
    if (train.height != test.height || train.width != test.width)
        fail(Exit::bad_input, from + ": training images are " + std::to_string(train.height) + "x" +
                                  std::to_string(train.width) + ", test images " + std::to_string(test.height) + "x" +
                                  std::to_string(test.width) + "; the files are of different data sets");
    if (std::equal(md5.begin(), md5.end(), mnist_md5.begin(), mnist_md5.end(),
                   [](const std::string& a, const char* b) { return a == b; }))
        source.checksum = "official";
    return source;
}

}  // namespace convoy
