#include "data/conversion_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/cache_folder.h"
#include "base/durable.h"
#include "base/file_error.h"
#include "base/held_file.h"
#include "base/text.h"
#include "data/digest.h"
#include "data/input_bytes.h"

namespace convoy {
namespace {

constexpr int64_t most_record_bytes = 64 << 20;
constexpr const char *identity_file = "conversion.json", *shards_folder = "shards", *records_folder = "records";
constexpr const char *begin_of_unpacked = "unpacked-", *lock_name = "lock";
const std::string begin_of_mark = "mark-";
constexpr size_t mark_characters = 20;
constexpr const char* advice = "choose another --to";

/// True if `name` exists, even as a link without a target, or if that cannot be known.
bool may_be_there(const HeldFolder& folder, const std::string& name) {
    struct stat about{};
    return ::fstatat(folder.fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/// Returns the text of a file; empty if there is no such file. Throws Inaccessible if it cannot be
/// read, because prepare() removes all shards if the identity seems to be missing. Throws Exit::io
/// for a link: others could write to the file that it leads to.
std::string text_in(const HeldFolder& folder, const std::string& name) {
    struct stat about{};
    const bool known = ::fstatat(folder.fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
    const bool none = known ? !S_ISREG(about.st_mode) && !S_ISLNK(about.st_mode) : errno == ENOENT;
    if (none) return "";
    check_has_one_name(folder, name);
    const InputBytes file({folder, name});
    if (file.size() > most_record_bytes) fail(Exit::bad_input, file.path() + ": holds more than 64 MiB; " + advice);
    std::string text(size_t(file.size()), '\0');
    file.read(0, file.size(), text.data());
    return text;
}

/// Returns the bytes of a file; -1 if it is not there, or is a link or has several names.
int64_t bytes_of(const HeldFolder& folder, const std::string& name) {
    struct stat about{};
    const bool known = ::fstatat(folder.fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
    return known && S_ISREG(about.st_mode) && about.st_nlink == 1 ? int64_t(about.st_size) : -1;
}

/// Returns the folder's inode number and the time when it was made, which no copy of it has.
/// Returns nothing if the file system keeps no such times, as NFS does.
std::optional<std::string> birth_of(const HeldFolder& folder) {
    struct statx about{};
    if (::statx(folder.fd(), "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &about) != 0)
        cannot_read(folder.shown(), errno, advice);
    if (!(about.stx_mask & STATX_BTIME)) return {};
    return formatted("in folder %llu, made %lld.%09u", (unsigned long long)about.stx_ino,
                     (long long)about.stx_btime.tv_sec, about.stx_btime.tv_nsec);
}

/// Returns the file in the user's cache with a secret of the conversion in this folder; "" without
/// a cache.
std::string secret_file(const HeldFolder& folder) {
    const std::string cache = cache_folder(), path = folder.real_path();
    return cache.empty() ? "" : cache + "/conversion-" + digest_of(Digest::Kind::sha256, path.data(), path.size());
}

/// Puts a new secret in that file, and returns it. If it cannot be written, a later run cannot
/// continue this conversion.
std::string new_secret(const std::string& file) {
    std::string secret = "with secret " + random_name(mark_characters);
    make_folder_of(file);
    ::unlink(file.c_str());
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    const Descriptor made(::open(file.c_str(), flags, S_IRUSR | S_IWUSR));
    if (made.valid()) (void)write_all(made.fd(), secret.data(), secret.size());
    return secret;
}

/// True if a conversion makes an entry of this name in its folder.
bool is_of_conversion(const std::string& name) {
    for (const char* made : {lock_name, identity_file, "conversion.json.partial", shards_folder, records_folder})
        if (name == made) return true;
    const auto continues = [&](const std::string& begin, const auto& is_fit) {
        return name.size() > begin.size() && name.starts_with(begin) &&
               std::all_of(name.begin() + std::ptrdiff_t(begin.size()), name.end(), is_fit);
    };
    const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
    if (continues("unpacked-train-", is_digit) || continues("unpacked-test-", is_digit)) return true;
    return name.size() == begin_of_mark.size() + mark_characters &&
           continues(begin_of_mark, [](unsigned char c) { return std::isalnum(c) != 0; });
}

/// Throws Exit::usage unless the folder is empty or a conversion's. A conversion's folder has a
/// lock.
void check_content(const HeldFolder& folder) {
    std::error_code error;
    const std::vector<std::string> names = folder.names(error);
    if (error) fail(Exit::io, folder.shown() + ": cannot be looked into (" + error.message() + "); " + advice);
    const auto other = std::find_if_not(names.begin(), names.end(), is_of_conversion);
    if (other != names.end())
        fail(Exit::usage, folder.shown() + ": holds " + *other + ", which no conversion made; " + advice);
    if (!names.empty() && !folder.has(lock_name))
        fail(Exit::usage, folder.shown() + ": is not empty, and no conversion was begun in it; " + advice);
}

/// Lets only the owner into the folder. Throws Exit::usage if it has content and others could enter
/// it. No conversion made such a folder, and others may have its files open. Does nothing where the
/// file system keeps no modes.
void close_to_others(const HeldFolder& folder) {
    constexpr mode_t others = S_IRWXG | S_IRWXO;
    struct stat before{}, after{};
    if (::fstat(folder.fd(), &before) != 0 || (before.st_mode & others) == 0) return;
    const mode_t mode = before.st_mode & ALLPERMS;
    const bool closed = ::fchmod(folder.fd(), mode & ~others) == 0 && ::fstat(folder.fd(), &after) == 0 &&
                        (after.st_mode & others) == 0;
    std::error_code error;
    if (!closed || (folder.names(error).empty() && !error)) return;
    (void)!::fchmod(folder.fd(), mode);
    fail(Exit::usage, folder.shown() + ": others may look into it, so no conversion made it; remove it, or " + advice);
}

}  // namespace

ConversionFolder::ConversionFolder(const std::filesystem::path& destination)
    : path_(destination.string() + ".partial") {}

ConversionFolder::~ConversionFolder() {
    if (!lock_.valid()) return;
    if (may_be_there(own_->held(), identity_file)) return;
    remove();
}

void ConversionFolder::remove() const {
    const std::string secret = secret_file(own_->held());  // its name depends on the folder's path
    std::error_code error;
    std::vector<std::string> names = own_->held().names(error);
    std::erase_if(names, [](const std::string& name) { return name == lock_name || !is_of_conversion(name); });
    names.push_back(lock_name);  // last, because without a lock the next conversion refuses the remaining files
    if (!error) error = own_->remove_only(names);
    ::unlink(secret.c_str());
}

std::string ConversionFolder::take() {
    own_ = OwnFolder::make_or_take(path_, advice);
    const HeldFolder& held = own_->held();
    check_content(held);
    close_to_others(held);
    Descriptor lock = open_lock(held, lock_name);
    if (!lock_file(lock.fd()))
        fail(Exit::usage, path_ + ": another conversion works in it; wait for that, or choose another --to");
    lock_ = std::move(lock);
    std::error_code ignored;
    for (const std::string& name : held.names(ignored))
        if (name.starts_with(begin_of_mark)) ignored = held.remove(name);
    // A random name. No cache of a network file system can have noted that it is missing.
    std::string mark = begin_of_mark + random_name(mark_characters);
    held.open_new(mark);
    return mark;
}

void ConversionFolder::join(const std::string& mark) {
    own_ = OwnFolder::existing(path_, advice);
    if (!may_be_there(own_->held(), mark))
        fail(Exit::io, path_ +
                           ": this rank finds another folder there than rank 0; choose a --to that is the same "
                           "folder on all hosts, and in which only you may rename");
    shards_ = own_->subfolder(shards_folder);
    records_ = own_->subfolder(records_folder);
}

FilePlace ConversionFolder::source(const std::string& path) const {
    if (!path.starts_with(path_ + "/" + begin_of_unpacked)) return path;
    return {own_->held(), path.substr(path_.size() + 1)};
}

void ConversionFolder::remove_unpacked() const {
    std::error_code ignored;
    for (const std::string& name : own_->held().names(ignored))
        if (is_of_conversion(name) && name.starts_with(begin_of_unpacked)) ignored = own_->held().remove_tree(name);
}

ConversionFolder::Before ConversionFolder::prepare(const std::string& identity_of_work) {
    const HeldFolder& held = own_->held();
    // The shards of a folder that was unpacked or copied could be anybody's.
    const std::optional<std::string> birth = birth_of(held);
    const std::string secret = birth ? "" : secret_file(held), known = birth ? *birth : text_of_cache(secret);
    const std::string before = text_in(held, identity_file);
    const bool same = !known.empty() && before == identity_of_work + "\n" + known;
    own_->check();
    if (!same) {
        for (const char* old : {identity_file, shards_folder, records_folder})  // the identity first: it validates them
            if (const std::error_code error = held.remove_tree(old))
                fail(Exit::io, held.shown(old) + ": cannot be removed (" + error.message() + "); remove it");
        replace_in(held, identity_file, identity_of_work + "\n" + (birth ? *birth : new_secret(secret)));
    }
    shards_ = own_->subfolder(shards_folder);
    records_ = own_->subfolder(records_folder);
    if (before.empty()) return Before::nothing;
    return same ? Before::same : Before::other;
}

std::optional<ShardRecord> ConversionFolder::finished(const std::string& name) const try {
    const std::string text = text_in(*records_, name);
    if (text.empty()) return {};
    ShardRecord record = record_of(text);
    if (record.name != name) return {};
    const std::string done = text_in(*records_, name + ".done");
    if (done.empty() && may_be_there(*records_, name + ".open")) return {};
    const int64_t bytes = done.empty() ? record.bytes : nlohmann::json::parse(done).at("bytes").get<int64_t>();
    if (bytes_of(*shards_, name) != bytes) return {};
    return record;
} catch (const nlohmann::json::exception&) {
    return {};
} catch (const std::invalid_argument&) {
    return {};
}

void ConversionFolder::forget(const std::string& name) const {
    own_->check();
    std::error_code ignored;
    for (const char* ending : {"", ".open", ".done"}) ignored = records_->remove(name + ending);
}

void ConversionFolder::remember(const ShardRecord& record) const {
    replace_in(*records_, record.name, text_of(record));
}

ManifestEntry ConversionFolder::seal(const ShardRecord& record, const PixelStatistics& statistics) const {
    own_->check();
    const std::string& name = record.name;
    ManifestEntry entry{name, record.split, record.tally.images, 0, ""};
    const nlohmann::json numbers = {statistics.mean, statistics.stddev};
    if (const std::string done = text_in(*records_, name + ".done"); !done.empty()) {
        const auto json = nlohmann::json::parse(done);
        entry.bytes = json.at("bytes");
        entry.sha256 = json.at("sha256");
        // The statistics are those of all shards. They differ if any shard was made again since.
        if (json.value("statistics", nlohmann::json()) == numbers) return entry;
    }
    replace_in(*records_, name + ".open", "");
    [[maybe_unused]] const std::error_code ignored = records_->remove(name + ".done");
    seal_shard(shard(name), statistics);
    entry.bytes = bytes_of(*shards_, name);
    entry.sha256 = digest_of_file(Digest::Kind::sha256, shard(name));
    const nlohmann::json done = {{"bytes", entry.bytes}, {"sha256", entry.sha256}, {"statistics", numbers}};
    replace_in(*records_, name + ".done", done.dump());
    return entry;
}

std::string ConversionFolder::publish(const std::vector<ManifestEntry>& entries, const Destination& to) {
    own_->check();
    write_manifest(*shards_, entries);
    std::string kept = to.put_in_place(*own_, shards_folder);
    remove();
    lock_ = Descriptor(-1);  // from now on, another conversion may use the folder
    return kept;
}

}  // namespace convoy
