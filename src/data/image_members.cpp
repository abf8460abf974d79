// Images in tar archives: their members become images of a list, the last of each name as tar
// itself unpacks it.
#include "data/image_members.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/input_file.h"
#include "data/gzip.h"
#include "data/image_folder.h"
#include "data/image_names.h"
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

/// The last of all members of the same name, in their order; the others are skipped.
std::vector<TarPlace> last_of_each(std::vector<TarPlace> members, ImageList& to) {
    std::unordered_map<std::string, size_t> last;
    last.reserve(members.size());
    for (size_t i = 0; i < members.size(); ++i) last[normal_name(members[i].name)] = i;
    if (last.size() == members.size()) return members;
    std::vector<TarPlace> kept;
    kept.reserve(last.size());
    for (size_t i = 0; i < members.size(); ++i)
        if (last.at(normal_name(members[i].name)) == i)
            kept.push_back(std::move(members[i]));
        else
            to.skip(Skipped::replaced, members[i].name);
    return kept;
}

/// The members of one archive become images of its list.
class Archive {
public:
    Archive(const std::string& path, const std::string& shown, ImageList& to)
        : file_(path), to_(to), source_(to.add_source(path, shown)), members_(members_in(0, file_.size())) {}

    void add_all() {
        const bool labelled = any(".cls");
        for (const TarPlace& member : members_)
            if (is_archive_name(member.name) && !labelled)
                add_class_archive(member);
            else if (!is_image_name(member.name))
                skip_other(member);
            else if (!labelled)
                add_by_name(member);
        if (labelled) add_by_labels();
    }

private:
    /// Those that are nobody's are skipped.
    std::vector<TarPlace> members_in(int64_t offset, int64_t bytes) {
        std::vector<TarPlace> members;
        const int64_t links = index_tar(file_, offset, bytes, [&](const TarPlace& member) {
            if (has_hidden_part(member.name))
                to_.skip(Skipped::hidden, member.name);
            else
                members.push_back(member);
        });
        to_.skipped[size_t(Skipped::link)].add(to_.given[size_t(source_)].path, links);
        return last_of_each(std::move(members), to_);
    }
    void skip_other(const TarPlace& member) {
        if (!member.name.ends_with(".cls")) to_.skip(Skipped::other, member.name);
    }
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
        if (!archive.name.ends_with(".tar")) return to_.skip(Skipped::archive, archive.name);
        if (!is_tar(file_, archive.offset, archive.bytes))
            fail(Exit::bad_input, place(archive) + ": is no tar archive; get it again");
        const std::string label = stem_of(archive.name);
        const size_t before = to_.images.size();
        for (const TarPlace& member : members_in(archive.offset, archive.bytes))
            if (is_image_name(member.name))
                add(label, label + "/" + file_of(member.name), member);
            else
                to_.skip(Skipped::other, member.name);
        if (to_.images.size() == before) fail(Exit::bad_input, place(archive) + ": holds no .jpg, .jpeg or .png");
    }
    void add_by_name(const TarPlace& member) {
        const std::string folder = parent_of(member.name), label = folder.empty() ? stem_of(file_.path()) : folder;
        add(label, label + "/" + file_of(member.name), member);
    }
    std::string label_in(const TarPlace& member) const {
        if (member.bytes > most_label_bytes) fail(Exit::bad_input, place(member) + ": is no label: it is too long");
        std::string label(size_t(member.bytes), '\0');
        file_.read(member.offset, member.bytes, label.data());
        label = plain_text(std::move(label), place(member), "a label is a number or a name");
        label.erase(label.find_last_not_of(" \t\r\n") + 1);
        if (label.empty() || label.find('\n') != std::string::npos)
            fail(Exit::bad_input, place(member) + ": is no label, a number or a name; check the archive");
        return label;
    }
    void add_by_labels() {
        std::map<std::string, std::string> labels;
        for (const TarPlace& member : members_)
            if (member.name.ends_with(".cls")) labels[key_of(member.name)] = label_in(member);
        const bool numbers =
            std::all_of(labels.begin(), labels.end(), [](const auto& entry) { return is_number(entry.second); });
        to_.placed = false;
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
    const std::vector<TarPlace> members_;
};

/// What a file is by its first bytes, if it is an archive that is not read; else nothing.
std::string_view archive_kind(const InputBytes& file) {
    using Kind = std::pair<std::string_view, std::string_view>;
    constexpr Kind kinds[] = {{"PK\3\4", "a zip archive"},
                              {"PK\5\6", "an empty zip archive"},
                              {"\xfd"
                               "7zXZ",
                               "compressed by xz"},
                              {"BZh", "compressed by bzip2"},
                              {"\x28\xb5\x2f\xfd", "compressed by zstd"},
                              {"7z\xbc\xaf", "a 7z archive"},
                              {"Rar!", "a rar archive"}};
    std::string begin(size_t(std::min<int64_t>(file.size(), 6)), '\0');
    file.read(0, int64_t(begin.size()), begin.data());
    for (const auto& [magic, kind] : kinds)
        if (begin.starts_with(magic)) return kind;
    return {};
}

}  // namespace

bool is_archive(std::string& path, const std::string& unpacked) {
    const InputBytes file(path);
    unsigned char magic[2] = {};
    if (file.size() >= 2) file.read(0, 2, magic);
    if (magic[0] == 0x1f && magic[1] == 0x8b) {
        const std::string packed = path;
        path = unpack(packed, unpacked);
        if (const InputBytes plain(path); is_tar(plain, 0, plain.size())) return true;
        fail(Exit::bad_input, packed + ": is gzipped, but holds no tar archive; get it again");
    }
    if (const std::string_view kind = archive_kind(file); !kind.empty())
        fail(Exit::bad_input,
             path + ": is " + std::string(kind) + ", which is not read; unpack it, and give the folder");
    if (is_tar(file, 0, file.size())) return true;
    if (is_archive_name(path))
        fail(Exit::bad_input,
             path + ": is no tar archive" + (file.size() == 0 ? ", but empty" : "") + "; get it again");
    return false;
}

void add_archive(const std::string& path, const std::string& shown, ImageList& to) {
    Archive(path, shown, to).add_all();
}

}  // namespace convoy
