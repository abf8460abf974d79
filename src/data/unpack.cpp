#include "data/unpack.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/descriptor.h"
#include "base/durable.h"
#include "base/error.h"
#include "base/held_folder.h"
#include "base/text.h"
#include "data/disk_room.h"
#include "data/gzip.h"
#include "data/tar_index.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t block = 512;  // a header of tar
constexpr uint64_t mib = 1 << 20;

/// Returns "a.tar" for "a.tar.gz" and "a.tgz"; "a" for "a.gz".
std::string name_unpacked(const std::string& path) {
    const std::string stem = fs::path(path).stem();
    return lower_case(path).ends_with(".tgz") ? stem + ".tar" : stem;
}

/// The plain file while it is written. The destructor deletes it unless it was kept.
class Unpacked {
public:
    Unpacked(const std::string& from, const HeldFolder& folder, const std::string& name)
        : from_(from), folder_(folder), name_(name), path_(folder.shown(name)), file_(folder.replace(name)) {}
    ~Unpacked() {
        if (kept_) return;
        [[maybe_unused]] const std::error_code ignored = folder_.remove(name_);
    }
    Unpacked(const Unpacked&) = delete;

    /// Throws Exit::io if the disk has no room for `bytes` bytes.
    void check_room(uint64_t bytes) const {
        check_disk_room(file_.fd(), path_, bytes, Reserve::twentieth, "unpack " + from_);
    }
    void write(const char* data, size_t bytes) {
        if (!write_all(file_.fd(), data, bytes)) cannot_write(path_);
    }
    void keep() { kept_ = true; }

private:
    const std::string from_;
    const HeldFolder& folder_;
    const std::string name_, path_;
    const Descriptor file_;
    bool kept_ = false;
};

}  // namespace

FilePlace unpack_tar(const std::string& path, const OwnFolder& above, const std::string& name) {
    const HeldFolder folder = above.subfolder(name);
    const FilePlace to(above.held(), name + "/" + name_unpacked(path));
    GzipReader reader(path);
    const uint64_t packed = reader.file_bytes(), most = most_unpacked(packed);
    Unpacked file(path, folder, name_unpacked(path));
    file.check_room(packed);
    std::vector<char> buffer(mib);
    size_t bytes = reader.read(buffer.data(), block);
    file.write(buffer.data(), bytes);
    if (const InputBytes begin(to); !is_tar(begin, 0, begin.size()))
        fail(Exit::bad_input, path + ": is gzipped, but holds no tar archive; get it again");
    while ((bytes = reader.read(buffer.data(), buffer.size())) > 0) {
        if (reader.offset() > most)
            fail(Exit::bad_input, path + ": unpacks to more than " + std::to_string(GzipReader::most_growth) +
                                      " times its size, which images do not; if it is sound, unpack it and give its "
                                      "folder");
        file.check_room(bytes);
        file.write(buffer.data(), bytes);
    }
    file.keep();
    return to;
}

}  // namespace convoy
