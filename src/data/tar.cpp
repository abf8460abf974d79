// libarchive reads the tar format; GzipReader reads the gzip stream, because it compares the CRC.
#include "data/tar.h"

#include <archive.h>
#include <archive_entry.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "data/gzip.h"

namespace convoy {
namespace {

constexpr size_t most_archive_bytes = size_t(1) << 30;  // unpacked; the largest official archive has 187 MB
constexpr size_t most_header_bytes = 1 << 20;  // libarchive takes 12 times the memory of a sparse file's header

/// Passes the decompressed stream of a GzipReader to libarchive. Its exceptions must not cross C
/// code.
struct TarInput {
    TarInput(const std::string& path, const std::string& wanted)
        : gzip(path, GzipReader::Digests::of_file), expected(wanted) {}
    GzipReader gzip;
    const std::string& expected;
    size_t most = most_header_bytes;  ///< bytes of the stream up to the end of the next header
    std::string failure;
    std::array<char, 1 << 16> buffer;

    size_t next() {
        const size_t bytes = gzip.read(buffer.data(), buffer.size());
        if (gzip.offset() > most_archive_bytes)
            fail(Exit::bad_input, gzip.path() + ": unpacks to more than " + std::to_string(most_archive_bytes) +
                                      " bytes; is it " + expected + "?");
        if (gzip.offset() > most + buffer.size())
            fail(Exit::bad_input, gzip.path() + ": has a header of more than 1 MiB; is it " + expected + "?");
        return bytes;
    }

    static la_ssize_t read(archive* tar, void* self, const void** out) {
        auto* input = static_cast<TarInput*>(self);
        *out = input->buffer.data();
        try {
            return la_ssize_t(input->next());
        } catch (const std::exception& error) {
            input->failure = error.what();
            archive_set_error(tar, EINVAL, "unreadable");
            return ARCHIVE_FATAL;
        }
    }
};

[[noreturn]] void bad_archive(const TarInput& input, archive* tar) {
    if (!input.failure.empty()) fail(Exit::bad_input, input.failure);
    const char* reason = archive_error_string(tar);
    fail(Exit::bad_input, input.gzip.path() + ": at byte " + std::to_string(input.gzip.offset()) +
                              " of its content: " + (reason ? reason : "not a tar archive") +
                              "; it is no (complete) tar archive, get it again");
}

/// Returns the content of a member. libarchive returns no more than the size in its header.
std::vector<uint8_t> read_member(archive* tar, size_t size, const TarInput& input) {
    std::vector<uint8_t> bytes(size);
    for (size_t filled = 0; filled < size;) {
        const la_ssize_t got = archive_read_data(tar, &bytes[filled], size - filled);
        if (got <= 0) bad_archive(input, tar);
        filled += size_t(got);
    }
    return bytes;
}

}  // namespace

ArchiveDigests visit_tar_gz(const std::string& path, const std::string& expected,
                            const std::function<void(const TarMember&)>& visit) {
    TarInput input(path, expected);
    const std::unique_ptr<archive, int (*)(archive*)> tar(archive_read_new(), archive_read_free);
    archive_read_support_format_tar(tar.get());
    if (archive_read_open(tar.get(), &input, nullptr, TarInput::read, nullptr) != ARCHIVE_OK)
        bad_archive(input, tar.get());
    for (archive_entry* entry = nullptr;;) {
        const int code = archive_read_next_header(tar.get(), &entry);
        if (code == ARCHIVE_EOF) break;
        if (code != ARCHIVE_OK && code != ARCHIVE_WARN) bad_archive(input, tar.get());
        if (archive_entry_sparse_count(entry) > 0)
            fail(Exit::bad_input, path + ": has a sparse file; is it " + expected + "?");
        input.most = input.gzip.offset() + size_t(archive_entry_size(entry)) + most_header_bytes;
        if (archive_entry_filetype(entry) != AE_IFREG) continue;
        const char* entry_path = archive_entry_pathname(entry);
        const auto bytes = uint64_t(archive_entry_size(entry));
        visit({.name = std::filesystem::path(entry_path ? entry_path : "").filename(), .bytes = bytes, .read = [&] {
                   return read_member(tar.get(), size_t(bytes), input);
               }});
    }
    input.most = most_archive_bytes;
    while (input.next() > 0) continue;  // reads to the end of the stream, where the CRC is compared
    return {input.gzip.md5(), input.gzip.sha256()};
}

}  // namespace convoy
