#include "data/conversion_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/durable.h"
#include "base/input_file.h"
#include "data/digest.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr size_t most_record_bytes = 64 << 20;
constexpr const char* identity_file = "conversion.json";
constexpr const char* advice = "choose another --to";

void write_text(const std::string& path, const std::string& text) { replace_file(path, {text.begin(), text.end()}); }

/// Empty if there is no such file. Throws Inaccessible if it cannot be read: what a conversion has
/// done must not be taken for another's then.
std::string text_at(const std::string& path) {
    std::error_code error;
    const fs::file_type type = fs::status(path, error).type();
    const bool readable = type == fs::file_type::regular || type == fs::file_type::none;  // none: why will be said
    return readable ? text_of_input(path, most_record_bytes, advice) : "";
}

int64_t bytes_of(const std::string& path) {
    std::error_code error;
    const uintmax_t bytes = fs::file_size(path, error);
    return error ? -1 : int64_t(bytes);
}

}  // namespace

ConversionFolder::ConversionFolder(const fs::path& destination)
    : destination_(destination),
      partial_(destination.string() + ".partial"),
      shards_(partial_ / "shards"),
      records_(partial_ / "records") {}

ConversionFolder::~ConversionFolder() {
    if (lock_ < 0) return;
    std::error_code error;
    const bool begun = fs::status(partial_ / identity_file, error).type() != fs::file_type::not_found;
    if (!begun) error = own_->remove();
    ::close(lock_);
}

void ConversionFolder::take() {
    own_ = OwnFolder::make_or_take(partial_, advice);
    const int lock = open_to_write(partial_ / "lock", O_WRONLY);
    if (!lock_file(lock)) {
        ::close(lock);
        fail(Exit::usage,
             partial_.string() + ": another conversion works in it; wait for that, or choose another --to");
    }
    lock_ = lock;
}

void ConversionFolder::join() { own_ = OwnFolder::existing(partial_, advice); }

ConversionFolder::Before ConversionFolder::prepare(const std::string& identity) const {
    const std::string path = partial_ / identity_file, before = text_at(path);
    own_->check();
    if (before != identity) {
        for (const fs::path& old : {fs::path(path), shards_, records_}) {  // in this order: half of it is nothing
            std::error_code error;
            fs::remove_all(old, error);
            if (error) fail(Exit::io, old.string() + ": cannot be removed (" + error.message() + "); remove it");
        }
        write_text(path, identity);
    }
    for (const fs::path& folder : {shards_, records_}) own_->subfolder(folder.filename());
    if (before.empty()) return Before::nothing;
    return before == identity ? Before::same : Before::other;
}

std::optional<ShardRecord> ConversionFolder::finished(const std::string& name) const try {
    const std::string path = record_path(name), text = text_at(path);
    if (text.empty()) return {};
    ShardRecord record = record_of(text);
    if (record.name != name) return {};
    const std::string done = text_at(path + ".done");
    std::error_code error;
    if (done.empty() && fs::exists(path + ".open", error)) return {};
    const int64_t bytes = done.empty() ? record.bytes : nlohmann::json::parse(done).at("bytes").get<int64_t>();
    if (bytes_of(shard_path(name)) != bytes) return {};
    return record;
} catch (const nlohmann::json::exception&) {
    return {};
} catch (const std::invalid_argument&) {
    return {};
}

void ConversionFolder::forget(const std::string& name) const {
    own_->check();
    std::error_code ignored;
    for (const char* ending : {"", ".open", ".done"}) fs::remove(record_path(name) + ending, ignored);
}

void ConversionFolder::remember(const ShardRecord& record) const {
    write_text(record_path(record.name), text_of(record));
}

ManifestEntry ConversionFolder::seal(const ShardRecord& record, const PixelStatistics& statistics) const {
    own_->check();
    const std::string path = shard_path(record.name), record_file = record_path(record.name);
    ManifestEntry entry{record.name, record.split, record.tally.images, 0, ""};
    if (const std::string done = text_at(record_file + ".done"); !done.empty()) {
        const auto json = nlohmann::json::parse(done);
        entry.bytes = json.at("bytes");
        entry.sha256 = json.at("sha256");
        return entry;
    }
    write_text(record_file + ".open", "");
    seal_shard(path, statistics);
    entry.bytes = bytes_of(path);
    entry.sha256 = digest_of_file(Digest::Kind::sha256, path);
    write_text(record_file + ".done", nlohmann::json{{"bytes", entry.bytes}, {"sha256", entry.sha256}}.dump());
    return entry;
}

std::string ConversionFolder::publish(const std::vector<ManifestEntry>& entries, bool force) {
    own_->check();
    write_manifest(shards_ / "manifest.json", entries);
    std::string kept = put_in_place(shards_, destination_, force);
    [[maybe_unused]] const std::error_code ignored = own_->remove();
    if (lock_ >= 0) ::close(lock_);
    lock_ = -1;  // the folder may be another conversion's from now on
    return kept;
}

}  // namespace convoy
