// Lists the members of tar archives as images. If several members have one name, the last one
// counts, because tar unpacks it last.
#include "data/image_members.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/input_file.h"
#include "base/shorten.h"
#include "base/text.h"
#include "data/image_folder.h"
#include "data/image_formats.h"
#include "data/image_names.h"
#include "data/tar_index.h"
#include "data/unpack.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr int64_t most_label_bytes = 256, mib = 1 << 20;

std::string stem_of(const std::string& path) { return fs::path(path).stem(); }
std::string file_of(const std::string& path) { return fs::path(path).filename(); }

/// Returns the name of the folder that holds a member; empty at the top.
std::string parent_of(const std::string& name) {
    const std::string parent = fs::path(normal_name(name)).parent_path().filename();
    return parent == ".." ? "" : parent;
}

/// Returns WebDataset's key: the name up to the first dot of its file.
std::string key_of(const std::string& member) {
    const std::string name = normal_name(member);
    return name.substr(0, name.find('.', name.rfind('/') + 1));
}

/// Keeps the last member of each name, in their order, and records the other members as skipped.
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

/// Adds the members of one archive to the list.
class Archive {
public:
    Archive(const FilePlace& place, const std::string& shown, ImageList& to)
        : file_(place), to_(to), source_(to.add_source(place, shown, shown)), members_(members_in(0, file_.size())) {}

    void add_all() {
        const bool labelled = has_labels();
        for (const TarPlace& member : members_)
            if (is_archive_name(member.name) && !labelled)
                add_class_archive(member);
            else if (!is_image_name(member.name))
                skip_other(member, labelled);
            else if (!labelled)
                add_by_name(member);
        if (labelled) add_by_labels();
    }

private:
    /// Returns the members of an archive without links and hidden files.
    std::vector<TarPlace> members_in(int64_t offset, int64_t bytes) {
        std::vector<TarPlace> members;
        index_tar(file_, offset, bytes, [&](const TarPlace& member) {
            if (has_hidden_part(member.name)) return to_.skip(Skipped::hidden, member.name);
            count(member.name.size());
            members.push_back(member);
        });
        members = last_of_each(std::move(members), to_);
        std::erase_if(members, [&](const TarPlace& member) {
            if (member.is_link) to_.skip(Skipped::link, member.name);
            return member.is_link;
        });
        return members;
    }
    /// Counts bytes of names and labels that are kept. Throws Exit::bad_input if there are far more
    /// than images have, because long names compress to almost nothing but take memory here.
    void count(size_t bytes) {
        kept_bytes_ += int64_t(bytes);
        const int64_t most = std::max<int64_t>(64 * mib, file_.size() / 2);
        if (kept_bytes_ > most)
            fail(Exit::bad_input, file_.path() + ": its names take more than " + std::to_string(most / mib) +
                                      " MiB, which those of images do not; get it again, or unpack it and give its "
                                      "folder");
    }
    void skip_no_image(const TarPlace& member) {
        to_.skip(is_other_picture_name(member.name) ? Skipped::picture : Skipped::other, member.name);
    }
    void skip_other(const TarPlace& member, bool labelled) {
        if (!labelled || !is_label_name(member.name)) skip_no_image(member);
    }
    static bool is_label_name(const std::string& name) { return name.ends_with(".cls"); }
    /// True if there is a member KEY.cls for an image KEY.jpg.
    bool has_labels() const {
        std::unordered_set<std::string> images;
        for (const TarPlace& member : members_)
            if (is_image_name(member.name)) images.insert(key_of(member.name));
        return std::any_of(members_.begin(), members_.end(), [&](const TarPlace& member) {
            return is_label_name(member.name) && images.contains(key_of(member.name));
        });
    }
    void add(const std::string& label, const std::string& name, const TarPlace& member,
             const std::string& folder = "") {
        to_.images.push_back({.label = label,
                              .name = name,
                              .source = source_,
                              .offset = member.offset,
                              .bytes = member.bytes,
                              .member = normal_name(folder + member.name)});
        const ListedImage& image = to_.images.back();
        count(image.label.size() + image.name.size() + image.member.size());
    }
    /// Adds an archive inside the archive. ILSVRC's n01440764.tar, for example, holds the images of
    /// one class.
    void add_class_archive(const TarPlace& archive) {
        const bool is_plain = lower_case(archive.name).ends_with(".tar");
        if (!is_plain && !holds_plain_archives_) return to_.skip(Skipped::archive, archive.name);
        if (!is_plain)
            fail(Exit::bad_input,
                 place(archive) + ": is compressed within another archive, which is not read; unpack the outer one");
        if (!is_tar(file_, archive.offset, archive.bytes))
            fail(Exit::bad_input, place(archive) + ": is no tar archive; get it again");
        const std::string label = stem_of(archive.name);
        const std::string folder = archive.name.substr(0, archive.name.size() - 4) + "/";
        const size_t before = to_.images.size();
        std::set<std::string> parents;
        for (const TarPlace& member : members_in(archive.offset, archive.bytes))
            if (is_image_name(member.name)) {
                add(label, label + "/" + file_of(member.name), member, folder);
                parents.insert(parent_of(member.name));
            } else if (is_label_name(member.name)) {
                fail(Exit::bad_input, place(archive) + ": holds labels (" + shortened(member.name) +
                                          "), which are not read in an archive inside another; unpack the outer one");
            } else {
                skip_no_image(member);
            }
        if (to_.images.size() == before) fail(Exit::bad_input, place(archive) + ": holds no " + read_endings());
        if (parents.size() > 1)
            fail(Exit::bad_input, place(archive) +
                                      ": holds several folders, and an archive in an archive is one class; "
                                      "unpack the outer one");
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
        label.erase(0, std::min(label.find_first_not_of(" \t\n"), label.size()));
        if (label.empty() || label.find('\n') != std::string::npos)
            fail(Exit::bad_input, place(member) + ": is no label, a number or a name; check the archive");
        return label;
    }
    /// Reads the label of a .cls member. If names contain dots, several members may have the same
    /// key.
    void add_label(const TarPlace& member, std::map<std::string, std::string>& labels) const {
        const std::string label = label_in(member);
        const auto [before, is_new] = labels.try_emplace(key_of(member.name), label);
        if (!is_new && before->second != label)
            fail(Exit::bad_input, place(member) + ": is a second label for " + shortened(before->first) +
                                      ", as a key ends at the first dot; write other names");
    }
    void add_by_labels() {
        std::map<std::string, std::string> labels;
        for (const TarPlace& member : members_)
            if (is_label_name(member.name)) add_label(member, labels);
        const bool numbers =
            std::all_of(labels.begin(), labels.end(), [](const auto& entry) { return is_number(entry.second); });
        to_.placed = false;
        to_.labelled.push_back(source_);
        if (to_.images.empty()) to_.numbered = numbers;
        for (const TarPlace& member : members_) {
            if (!is_image_name(member.name)) continue;
            const auto label = labels.find(key_of(member.name));
            if (label == labels.end())
                fail(Exit::bad_input,
                     place(member) + ": has no label, " + shortened(key_of(member.name)) + ".cls; add it");
            add(label->second, member.name, member);
        }
        to_.numbered = to_.numbered && numbers;
    }
    std::string place(const TarPlace& member) const { return file_.path() + ": " + shortened(member.name); }

    const InputBytes file_;
    ImageList& to_;
    const int32_t source_;
    int64_t kept_bytes_ = 0;  // of names and labels
    const std::vector<TarPlace> members_;
    const bool holds_plain_archives_ =
        std::ranges::any_of(members_, [](const TarPlace& member) { return lower_case(member.name).ends_with(".tar"); });
};

/// Returns the kind of an archive that Convoy does not read, from its first bytes; else empty.
std::string_view archive_kind(const InputBytes& file) {
    using Kind = std::pair<std::string_view, std::string_view>;
    constexpr Kind kinds[] = {{"PK\3\4", "a zip archive"},
                              {"PK\5\6", "an empty zip archive"},
                              {"\xfd"
                               "7zXZ",
                               "compressed by xz"},
                              {"BZh", "compressed by bzip2"},
                              {"\x1f\x9d", "compressed by compress"},
                              {"\x04\x22\x4d\x18", "compressed by lz4"},
                              {"LZIP", "compressed by lzip"},
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

bool is_archive(FilePlace& place, const OwnFolder* unpack_in, const std::string& name) {
    const InputBytes file(place);
    const std::string& path = file.path();
    unsigned char magic[2] = {};
    if (file.size() >= 2) file.read(0, 2, magic);
    if (magic[0] == 0x1f && magic[1] == 0x8b) {
        require(unpack_in != nullptr, "archives that are compressed have a folder to be unpacked to");
        place = unpack_tar(path, *unpack_in, name);
        return true;
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

void add_archive(const FilePlace& place, const std::string& shown, ImageList& to) {
    Archive(place, shown, to).add_all();
}

}  // namespace convoy
