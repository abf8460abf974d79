// CIFAR-10 binary: records of one label byte and 1,024 red, 1,024 green, 1,024 blue bytes; here
// they become NHWC. The archive's members come in an order of their own (data_batch_2 last but
// one), so they are collected before they are joined.
#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "base/input_file.h"
#include "data/decode.h"
#include "data/digest.h"
#include "data/gzip.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr int side = 32, plane = side * side, colours = 3, classes = 10;
constexpr size_t record_bytes = 1 + plane * colours, official_records = 10'000;
constexpr size_t most_batch_bytes = official_records * record_bytes, most_names_bytes = 1 << 16;
constexpr size_t most_archive_bytes = size_t(1) << 30;  // unpacked; the official archive has 184 MB
constexpr const char* official_md5 = "c32a1d4ab5d03f1284b67883e8d87530";
const std::array<std::string, 7> member_names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                                 "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin",
                                                 "batches.meta.txt"};

struct Images {
    std::vector<uint8_t> pixels;  ///< [n, 32, 32, 3]
    std::vector<int32_t> labels;  ///< [n]
};

/// What has been read so far, by member name.
struct Batches {
    std::map<std::string, Images> images;
    std::vector<std::string> class_names;
    std::vector<std::string> warnings;
};

bool is_member(const std::string& name) {
    return std::find(member_names.begin(), member_names.end(), name) != member_names.end();
}

Images decode_batch(const std::vector<uint8_t>& bytes, int64_t limit, const std::string& where) {
    if (bytes.empty() || bytes.size() % record_bytes != 0)
        fail(Exit::bad_input, where + ": has " + std::to_string(bytes.size()) + " bytes, not a multiple of the " +
                                  std::to_string(record_bytes) + " of a record (" +
                                  std::to_string(official_records * record_bytes) +
                                  " in the official file): it is truncated, get it again");
    size_t records = bytes.size() / record_bytes;
    if (limit > 0) records = std::min(records, size_t(limit));
    Images out;
    out.pixels.resize(records * plane * colours);
    out.labels.resize(records);
    for (size_t row = 0; row < records; ++row) {
        const uint8_t* record = &bytes[row * record_bytes];
        if (record[0] >= classes)
            fail(Exit::bad_input, where + ": row " + std::to_string(row) + " (byte " +
                                      std::to_string(row * record_bytes) + ") has label " + std::to_string(record[0]) +
                                      ", allowed is 0 to 9: this is not CIFAR-10's binary version, or it is damaged");
        out.labels[row] = record[0];
        uint8_t* image = &out.pixels[row * plane * colours];
        for (int i = 0; i < plane; ++i)
            for (int c = 0; c < colours; ++c) image[i * colours + c] = record[1 + c * plane + i];
    }
    return out;
}

std::vector<std::string> decode_names(const std::vector<uint8_t>& bytes, const std::string& where) {
    std::istringstream lines(std::string(bytes.begin(), bytes.end()));
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line);) {
        while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
        if (!line.empty()) names.push_back(line);
    }
    if (names.size() != classes)
        fail(Exit::bad_input, where + ": names " + std::to_string(names.size()) +
                                  " classes instead of 10; get CIFAR-10's binary version again");
    return names;
}

void add_member(const std::string& name, const std::vector<uint8_t>& bytes, int64_t limit, const std::string& where,
                Batches& batches) {
    if (name == "batches.meta.txt") {
        batches.class_names = decode_names(bytes, where);
        return;
    }
    if (batches.images.contains(name)) fail(Exit::bad_input, where + ": occurs twice; get the archive again");
    batches.images[name] = decode_batch(bytes, limit, where);
    if (const size_t records = bytes.size() / record_bytes; records != official_records)
        batches.warnings.push_back(where + ": has " + std::to_string(records) + " images, the official file has " +
                                   std::to_string(official_records));
}

/// A few megabytes can unpack to terabytes.
void check_unpacked(const GzipReader& gzip) {
    if (gzip.offset() > most_archive_bytes)
        fail(Exit::bad_input, gzip.path() + ": unpacks to more than " + std::to_string(most_archive_bytes) +
                                  " bytes; is it cifar-10-binary.tar.gz?");
}

/// libarchive's source of bytes: the decompressed stream of a GzipReader, whose exceptions must not
/// cross C code.
struct TarInput {
    explicit TarInput(const std::string& path) : gzip(path) {}
    GzipReader gzip;
    std::string failure;
    std::array<char, 1 << 16> buffer;

    static la_ssize_t read(archive* tar, void* self, const void** out) {
        auto* input = static_cast<TarInput*>(self);
        *out = input->buffer.data();
        try {
            const size_t bytes = input->gzip.read(input->buffer.data(), input->buffer.size());
            check_unpacked(input->gzip);
            return la_ssize_t(bytes);
        } catch (const std::exception& error) {
            input->failure = error.what();
            archive_set_error(tar, EINVAL, "unreadable");
            return ARCHIVE_FATAL;
        }
    }
};

[[noreturn]] void bad_archive(const TarInput& input, archive* tar, const std::string& path) {
    if (!input.failure.empty()) fail(Exit::bad_input, input.failure);
    const char* reason = archive_error_string(tar);
    fail(Exit::bad_input, path + ": at byte " + std::to_string(input.gzip.offset()) +
                              " of its content: " + (reason ? reason : "not a tar archive") +
                              "; it is no (complete) tar archive, get it again");
}

void check_size(const std::string& name, uint64_t bytes, const std::string& where) {
    const size_t most = name == "batches.meta.txt" ? most_names_bytes : most_batch_bytes;
    if (bytes > most)
        fail(Exit::bad_input, where + ": has " + std::to_string(bytes) + " bytes, CIFAR-10's has at most " +
                                  std::to_string(most) + "; get it again");
}

/// A member whose header says how many bytes it has; libarchive gives no more than these.
std::vector<uint8_t> read_member(archive* tar, size_t size, const TarInput& input, const std::string& path) {
    std::vector<uint8_t> bytes(size);
    for (size_t filled = 0; filled < size;) {
        const la_ssize_t got = archive_read_data(tar, &bytes[filled], size - filled);
        if (got <= 0) bad_archive(input, tar, path);
        filled += size_t(got);
    }
    return bytes;
}

void read_archive(const std::string& path, int64_t limit, Batches& batches) {
    TarInput input(path);
    const std::unique_ptr<archive, int (*)(archive*)> tar(archive_read_new(), archive_read_free);
    archive_read_support_format_tar(tar.get());
    if (archive_read_open(tar.get(), &input, nullptr, TarInput::read, nullptr) != ARCHIVE_OK)
        bad_archive(input, tar.get(), path);
    for (archive_entry* entry = nullptr;;) {
        const int code = archive_read_next_header(tar.get(), &entry);
        if (code == ARCHIVE_EOF) break;
        if (code != ARCHIVE_OK && code != ARCHIVE_WARN) bad_archive(input, tar.get(), path);
        const char* entry_path = archive_entry_pathname(entry);
        const std::string name = fs::path(entry_path ? entry_path : "").filename();
        if (archive_entry_filetype(entry) != AE_IFREG || !is_member(name)) continue;
        const std::string where = path + ": " + name;
        const auto bytes = uint64_t(archive_entry_size(entry));
        check_size(name, bytes, where);
        add_member(name, read_member(tar.get(), size_t(bytes), input, path), limit, where, batches);
    }
    std::array<char, 1 << 16> rest;  // to the end of the stream, where its CRC is
    while (input.gzip.read(rest.data(), rest.size()) > 0) check_unpacked(input.gzip);
}

void read_folder(const fs::path& folder, int64_t limit, Batches& batches, Source& source) {
    for (const std::string& name : member_names) {
        const std::string path = folder / name;
        std::error_code error;
        if (!fs::is_regular_file(path, error))
            fail(Exit::bad_input,
                 path + ": is missing; unpack cifar-10-binary.tar.gz again, or give the archive itself");
        check_size(name, size_of_input(path, "check its permissions"), path);
        std::ifstream in(path, std::ios::binary);
        const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
        if (!in && !in.eof()) fail(Exit::bad_input, path + ": cannot be read; check its permissions");
        add_member(name, bytes, limit, path, batches);
        source.files.push_back(name);
        source.sha256.push_back(digest_of(Digest::Kind::sha256, bytes.data(), bytes.size()));
    }
}

/// Joins the batches called `names` into one split, freeing each as it is copied.
Split join(const std::string& split, const std::vector<std::string>& names, const std::string& from, Batches& batches) {
    Images all;
    for (const std::string& name : names) {
        const auto found = batches.images.find(name);
        if (found == batches.images.end())
            fail(Exit::bad_input, from + ": has no member " + name + "; is it cifar-10-binary.tar.gz?");
        all.pixels.insert(all.pixels.end(), found->second.pixels.begin(), found->second.pixels.end());
        all.labels.insert(all.labels.end(), found->second.labels.begin(), found->second.labels.end());
        batches.images.erase(found);
    }
    return split_in_memory(split, side, side, colours, std::move(all.pixels), std::move(all.labels));
}

}  // namespace

Split split_in_memory(std::string name, int height, int width, int channels, std::vector<uint8_t> images,
                      std::vector<int32_t> labels) {
    Split split{std::move(name), int64_t(labels.size()), height, width, channels, nullptr};
    const auto bytes = size_t(split.image_bytes());
    require(images.size() == labels.size() * bytes, "one label an image");
    struct Rows {
        std::vector<uint8_t> images;
        std::vector<int32_t> labels;
    };
    // std::function needs a copyable owner
    const auto rows = std::make_shared<const Rows>(Rows{std::move(images), std::move(labels)});
    split.read = [rows, bytes](int64_t first, int64_t count, uint8_t* to, int32_t* labels_to) {
        std::copy_n(rows->images.begin() + first * int64_t(bytes), size_t(count) * bytes, to);
        std::copy_n(rows->labels.begin() + first, count, labels_to);
    };
    return split;
}

Source decode_cifar10(const std::string& from, int64_t limit_per_file) {
    std::error_code error;
    Batches batches;
    Source source;
    if (fs::is_directory(from, error)) {
        const fs::path nested = fs::path(from) / "cifar-10-batches-bin";
        read_folder(fs::is_directory(nested, error) ? nested : fs::path(from), limit_per_file, batches, source);
        batches.warnings.push_back(
            from + ": is a folder; whether it is the official CIFAR-10 can only be checked on the archive");
    } else {
        size_of_input(from, "give cifar-10-binary.tar.gz, or the folder unpacked from it");
        source.checksum = digest_of_file(Digest::Kind::md5, from) == official_md5 ? "official" : "differs";
        if (source.checksum == "differs")
            batches.warnings.push_back(from + ": is not the official archive (its MD5 is not " + official_md5 +
                                       "); converting what it holds");
        read_archive(from, limit_per_file, batches);
        source.files = {fs::path(from).filename()};
        source.sha256 = {digest_of_file(Digest::Kind::sha256, from)};
    }
    if (batches.class_names.empty())
        fail(Exit::bad_input, from + ": has no member batches.meta.txt; is it cifar-10-binary.tar.gz?");
    source.splits.push_back(join("train", {member_names.begin(), member_names.begin() + 5}, from, batches));
    source.splits.push_back(join("test", {"test_batch.bin"}, from, batches));
    source.class_names = batches.class_names;
    source.warnings = batches.warnings;
    return source;
}

}  // namespace convoy
