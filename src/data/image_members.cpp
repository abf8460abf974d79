#include "data/image_members.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "base/error.h"
#include "data/gzip.h"
#include "data/tar_index.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr int64_t most_label_bytes = 256;

std::string stem_of(const std::string& path) { return fs::path(path).stem(); }
std::string file_of(const std::string& path) { return fs::path(path).filename(); }

/// The folder that holds a member; empty at the top.
std::string parent_of(const std::string& name) {
    const std::string parent = fs::path(name).parent_path().filename();
    return parent == "." ? "" : parent;
}

/// WebDataset's key: the name up to the first dot of its file.
std::string key_of(const std::string& name) { return name.substr(0, name.find('.', name.rfind('/') + 1)); }

/// Writes the content of a gzipped file to `folder`; its path there.
std::string unpack(const std::string& path, const std::string& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    const std::string to = folder + "/" + stem_of(path);
    GzipReader reader(path);
    std::ofstream out(to, std::ios::binary | std::ios::trunc);
    std::vector<char> buffer(1 << 20);
    while (const size_t bytes = reader.read(buffer.data(), buffer.size()))
        out.write(buffer.data(), std::streamsize(bytes));
    out.close();
    if (!out) fail(Exit::io, to + ": cannot be written; is the disk full? " + path + " is unpacked there");
    return to;
}

/// The members of one archive become images of its list.
class Archive {
public:
    Archive(const std::string& path, ImageList& to) : file_(path), to_(to), source_(int32_t(to.sources.size())) {
        to.sources.push_back(path);
        to_.other_files +=
            index_tar(file_, 0, file_.size(), [&](const TarPlace& member) { members_.push_back(member); });
    }

    void add_all() {
        const bool labelled = any(".cls");
        for (const TarPlace& member : members_)
            if (member.name.ends_with(".tar") && !labelled)
                add_class_archive(member);
            else if (!is_image_name(member.name))
                to_.other_files += !member.name.ends_with(".cls");
            else if (!labelled)
                add_by_name(member);
        if (labelled) add_by_labels();
    }

private:
    bool any(const char* ending) const {
        return std::any_of(members_.begin(), members_.end(),
                           [&](const TarPlace& member) { return member.name.ends_with(ending); });
    }
    void add(const std::string& label, const std::string& name, const TarPlace& member) {
        to_.images.push_back({.label = label,
                              .name = name,
                              .source = source_,
                              .offset = member.offset,
                              .bytes = member.bytes,
                              .member = normal_name(member.name)});
    }
    /// ILSVRC's: n01440764.tar in the archive holds the class's images.
    void add_class_archive(const TarPlace& archive) {
        const std::string label = stem_of(archive.name);
        const int64_t links = index_tar(file_, archive.offset, archive.bytes, [&](const TarPlace& member) {
            if (is_image_name(member.name))
                add(label, label + "/" + file_of(member.name), member);
            else
                ++to_.other_files;
        });
        to_.other_files += links;
    }
    void add_by_name(const TarPlace& member) {
        const std::string folder = parent_of(member.name), label = folder.empty() ? stem_of(file_.path()) : folder;
        add(label, label + "/" + file_of(member.name), member);
    }
    std::string label_in(const TarPlace& member) const {
        if (member.bytes > most_label_bytes) fail(Exit::bad_input, place(member) + ": is no label: it is too long");
        std::string label(size_t(member.bytes), '\0');
        file_.read(member.offset, member.bytes, label.data());
        label.erase(label.find_last_not_of(" \t\r\n") + 1);
        if (label.empty() || label.find('\n') != std::string::npos)
            fail(Exit::bad_input, place(member) + ": is no label, a number or a name; check the archive");
        return label;
    }
    void add_by_labels() {
        std::map<std::string, std::string> labels;
        for (const TarPlace& member : members_)
            if (member.name.ends_with(".cls")) labels[key_of(member.name)] = label_in(member);
        bool numbers = true;
        for (const auto& [key, label] : labels)
            numbers = numbers && label.size() <= 9 && label.find_first_not_of("0123456789") == std::string::npos;
        if (to_.images.empty()) to_.numbered = numbers;
        for (const TarPlace& member : members_) {
            if (!is_image_name(member.name)) continue;
            const auto label = labels.find(key_of(member.name));
            if (label == labels.end())
                fail(Exit::bad_input, place(member) + ": has no label, " + key_of(member.name) + ".cls; add it");
            add(label->second, member.name, member);
        }
        to_.numbered = to_.numbered && numbers;
    }
    std::string place(const TarPlace& member) const { return file_.path() + ": " + member.name; }

    const InputBytes file_;
    ImageList& to_;
    const int32_t source_;
    std::vector<TarPlace> members_;
};

}  // namespace

bool is_image_name(const std::string& name) {
    std::string ending = fs::path(name).extension();
    std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

std::string normal_name(const std::string& path) { return fs::path(path).lexically_normal().relative_path(); }

bool is_archive(std::string& path, const std::string& unpacked, ImageList& list) {
    const InputBytes file(path);
    unsigned char magic[2] = {};
    if (file.size() >= 2) file.read(0, 2, magic);
    if (magic[0] != 0x1f || magic[1] != 0x8b) return is_tar(file);
    path = unpack(path, unpacked + "/" + std::to_string(list.sources.size()));
    return is_tar(InputBytes(path));
}

SourceFile look_at_source(const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
        fail(Exit::bad_input,
             path + ": is missing, or no regular file; check the list, the folder, and where links lead");
    return {status.st_size, int64_t(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec};
}

void add_archive(const std::string& path, ImageList& to) { Archive(path, to).add_all(); }

}  // namespace convoy
