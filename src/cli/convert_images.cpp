// convoy convert imagefolder: converts image files to a data set. Rank 0 lists them. Each rank
// makes whole shards, which depend on the list and the options alone. Rank 0 puts the data set in
// place.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "base/version.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/convert_options.h"
#include "cli/convert_summary.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include "data/conversion_folder.h"
#include "data/destination.h"
#include "data/digest.h"
#include "data/disk_room.h"
#include "data/image_splits.h"

namespace convoy {
namespace {

/// The shards to write and their images: assigned by rank 0, used by all ranks.
struct Work {
    ShardAssignment assignment;
    Source source;         ///< classes and provenance
    std::string finished;  ///< a letter per shard: 'y' if rank 0 found it finished, else 'n'
    ListSummary found;     ///< on rank 0
};

/// Returns the SHA-256 of every image's name, class and size, in the order of the rows.
std::string digest_of_assignment(const ShardAssignment& assignment) {
    Digest digest(Digest::Kind::sha256);
    for (const AssignedShard& shard : assignment.shards) {
        const std::string name = shard.name();
        digest.update(name.c_str(), name.size() + 1);
        for (const ListedImage& image : shard.images) {
            const std::string line =
                image.name + '\0' + std::to_string(image.class_index) + " " + std::to_string(image.bytes);
            digest.update(line.c_str(), line.size() + 1);
        }
    }
    return digest.hex();
}

/// Returns the SHA-256 of the images' modification times. A data set does not depend on them, but
/// they show that a file was replaced by one of the same size.
std::string digest_of_changes(const ShardAssignment& assignment) {
    Digest digest(Digest::Kind::sha256);
    for (const AssignedShard& shard : assignment.shards)
        for (const ListedImage& image : shard.images) digest.update(&image.changed, sizeof image.changed);
    return digest.hex();
}

/// Returns a text of everything that a shard's bytes depend on.
std::string identity_of(const Work& work, const ImageOptions& o) {
    std::vector<std::string> sources;
    for (const FilePlace& source : work.assignment.sources) sources.push_back(source.shown);
    const nlohmann::json json{{"list", digest_of_assignment(work.assignment)},
                              {"sources", sources},
                              {"changed", digest_of_changes(work.assignment)},
                              {"classes", work.source.class_names},
                              {"layout", int(o.rules.layout)},
                              {"resize", o.rules.resize.text()},
                              {"seed", o.sharding.seed},
                              {"converter", std::string(version) + " " + commit()},
                              {"libraries", jpeg_version() + " " + png_version()}};
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Returns "in" for "data/in/".
std::string name_of(const std::string& path) {
    const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
    return normal.has_filename() ? normal.filename() : normal.parent_path().filename();
}

/// If a shard has fewer rows than this, all of its images may turn out to be unreadable.
constexpr double few_rows = 16;

/// Returns the lists whose shards could have fewer than `few_rows` rows.
std::vector<ImageList*> lists_with_few_rows(ImageList& train, ImageList& test, const ShardOptions& o) {
    const bool drawn = test.images.empty();
    const double rows = double(train.images.size()), in_shard = rows / double(std::max<int64_t>(1, o.train_shards));
    std::vector<ImageList*> lists;
    if (in_shard < few_rows || (drawn && rows * o.test_share < few_rows)) lists.push_back(&train);
    if (!drawn && double(test.images.size()) < few_rows) lists.push_back(&test);
    return lists;
}

/// Removes unreadable images before rows are drawn, from lists whose shards could have few rows.
void remove_unreadable(const ImageOptions& o, ImageList& train, ImageList& test, ImageTally& tally,
                       Activity& activity) {
    if (o.rules.strict) return;
    const std::vector<ImageList*> lists = lists_with_few_rows(train, test, o.sharding);
    int64_t images = 0, done = 0;
    for (const ImageList* list : lists) images += int64_t(list->images.size());
    const Phase phase(activity, "looking at the images", "image", 0, images);
    for (ImageList* list : lists) {
        ImageTally of_list;
        const size_t before = list->images.size();
        leave_out_unreadable(*list, o.rules, of_list, [&] { activity.advance(++done); });
        tally.add(of_list);
        const size_t least = list == &train && test.images.empty() ? 2 : 1;  // two: one for each split
        if (before >= least && list->images.size() < least)
            fail(Exit::bad_input, list->given.at(0).path + ": of its " + counted(int64_t(before), "image") +
                                      (list->images.empty() ? " none" : " only one") + " can be read, as " +
                                      of_list.examples.at(0) + "; check the source");
    }
}

/// Rank 0 only. Lists the images and assigns them to shards.
Work list_work(const ImageOptions& o, const OwnFolder& folder, Activity& activity) {
    const Doing doing(activity, "listing the images");
    Work work;
    ImageList train = list_images({o.train.from, o.train.list, &folder, "unpacked-train"}), test;
    if (!o.test.from.empty())
        test = list_images({o.test.from, o.test.list, &folder, "unpacked-test"});
    else if (std::optional<ImageList> own = take_test_images(train))
        test = std::move(*own);
    const ClassTable classes = name_classes(train, o.classes);
    for (const std::string& name : classes.names) check_class_name(name, "rename it, or name it with --classes");
    if (!test.images.empty()) find_classes(test, classes);
    work.found = summary_of(train, test);
    if (o.rules.strict) check_nothing_is_lost(work.found);
    remove_unreadable(o, train, test, work.found.unreadable, activity);
    work.assignment = assign_shards(std::move(train), std::move(test), o.sharding, o.rules);
    work.source.class_names = classes.names;
    for (const FilePlace& source : work.assignment.sources) work.source.files.push_back(name_of(source.shown));
    const std::string list = digest_of_assignment(work.assignment);
    work.source.sha256.assign(work.source.files.size(), list);
    work.source.checksum = "of the list of images";
    return work;
}

/// Returns the texts as JSON. File names may have any bytes; those that are not UTF-8 are replaced.
std::string text_of(const std::vector<std::string>& texts) {
    return nlohmann::json(texts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
std::vector<std::string> texts_of(const std::string& text) { return nlohmann::json::parse(text); }

/// Collective. Sends rank 0's list to all ranks.
void share_work(Comm& comm, const ConversionFolder& folder, Work& work) {
    const std::string assignment = comm.broadcast(comm.root() ? text_of(work.assignment) : "");
    work.assignment = assignment_of(assignment, comm.rank(), comm.size());
    for (FilePlace& source : work.assignment.sources) source = folder.source(source.shown);
    work.source.class_names = texts_of(comm.broadcast(text_of(work.source.class_names)));
    work.source.files = texts_of(comm.broadcast(text_of(work.source.files)));
    work.source.sha256 = texts_of(comm.broadcast(text_of(work.source.sha256)));
    work.source.checksum = comm.broadcast(work.source.checksum);
    work.finished = comm.broadcast(work.finished);
}

/// The shards that one rank makes.
class Mine {
public:
    Mine(Comm& comm, const ImageOptions& o, const Work& work, const ConversionFolder& folder)
        : comm_(comm), options_(o), work_(work), folder_(folder) {}

    /// Makes the shards that are not finished yet.
    void convert() {
        int64_t images = 0, done = 0;
        std::vector<const AssignedShard*> missing;
        for (const AssignedShard* shard : own()) {
            // asks rank 0's list, because on a network disk other hosts may still see files that
            // rank 0 has removed
            const bool there = work_.finished[shard - work_.assignment.shards.data()] == 'y';
            std::optional<ShardRecord> record;
            if (there) record = folder_.finished(shard->name());
            // an unreadable file may be readable now: chmod does not change its modification time
            const bool may_be_better = record && (record->tally.faults[size_t(ImageFault::unreadable)] > 0 ||
                                                  (options_.rules.strict && record->tally.left_out() > 0));
            if (record && !may_be_better) {
                records_.push_back(std::move(*record));
                continue;
            }
            missing.push_back(shard);
            images += int64_t(shard->images.size());
        }
        const char* const name = comm_.size() > 1 ? "convert, rank 0's share" : "convert";
        const Phase phase(comm_.activity(), name, "image", 0, images, /*rated=*/true);
        const Doing doing(comm_.activity(), "converting images");
        for (const AssignedShard* shard : missing) {
            folder_.forget(shard->name());
            records_.push_back(convert_shard(
                *shard, work_.assignment.sources, options_.rules, work_.source, [this](hid_t file) { describe(file); },
                folder_.shard(shard->name()), [&] { comm_.activity().advance(++done); }));
            folder_.remember(records_.back());
        }
        converted_ = images;
    }
    /// Adds mean and deviation to the shards. Call it after all shards are made, because only then
    /// these numbers are known. Returns the entries for the manifest.
    std::vector<ManifestEntry> seal(const PixelStatistics& statistics) {
        const Phase phase(comm_.activity(), "checksums", "shard", 0, int64_t(records_.size()));
        const Doing doing(comm_.activity(), "completing shards");
        std::vector<ManifestEntry> entries;
        for (const ShardRecord& record : records_) {
            entries.push_back(folder_.seal(record, statistics));
            comm_.activity().advance(int64_t(entries.size()));
        }
        return entries;
    }
    const std::vector<ShardRecord>& records() const { return records_; }
    int64_t converted() const { return converted_; }  ///< number of images converted in this run

private:
    std::vector<const AssignedShard*> own() const {
        std::vector<const AssignedShard*> shards;
        for (size_t i = size_t(comm_.rank()); i < work_.assignment.shards.size(); i += size_t(comm_.size()))
            shards.push_back(&work_.assignment.shards[i]);
        return shards;
    }
    void describe(hid_t file) const {
        h5::set_checked_attribute(file, "resized", options_.rules.resize.text());
        h5::set_attribute(file, "permutation_seed", int64_t(options_.sharding.seed));
    }

    Comm& comm_;
    const ImageOptions& options_;
    const Work& work_;
    const ConversionFolder& folder_;
    std::vector<ShardRecord> records_;
    int64_t converted_ = 0;
};

/// Returns the records of all ranks, in the order of their names.
std::vector<ShardRecord> gather(Comm& comm, const std::vector<ShardRecord>& mine) {
    std::vector<std::string> texts;
    for (const ShardRecord& record : mine) texts.push_back(convoy::text_of(record));
    std::vector<ShardRecord> all;
    for (const std::string& rank : comm.gather_all(text_of(texts)))
        for (const std::string& text : texts_of(rank)) all.push_back(record_of(text));
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return all;
}

std::vector<ManifestEntry> gather(Comm& comm, const std::vector<ManifestEntry>& mine) {
    auto rows = nlohmann::json::array();
    for (const ManifestEntry& entry : mine)
        rows.push_back({entry.file, entry.split, entry.images, entry.bytes, entry.sha256});
    std::vector<ManifestEntry> all;
    for (const std::string& rank : comm.gather_all(rows.dump()))
        for (const auto& row : nlohmann::json::parse(rank)) all.push_back({row[0], row[1], row[2], row[3], row[4]});
    // the training split comes first, as in every manifest
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return std::tie(b.split, a.file) < std::tie(a.split, b.file); });
    return all;
}

/// Runs `work`, in which ranks do not wait for one another. An error of one rank ends the job at
/// once, because the others may still work for hours. A single rank removes the unpacked archives
/// after an error; with more ranks, others may still read them.
void each_alone(Comm& comm, const ConversionFolder& folder, const std::function<void()>& work) {
    if (comm.size() > 1) return work();
    comm.together([&] {
        try {
            work();
        } catch (const Error&) {
            folder.remove_unpacked();
            throw;
        }
    });
}

/// Rank 0 only. Lists the images, and prints how many shards are finished already. Returns the mark
/// for ConversionFolder::join().
std::string begin(Comm& comm, const ImageOptions& o, ConversionFolder& folder, Work& work, Terminal& terminal) {
    std::string mark = folder.take();
    work = list_work(o, folder.folder(), comm.activity());
    const ConversionFolder::Before before = folder.prepare(identity_of(work, o));
    for (const AssignedShard& shard : work.assignment.shards)
        work.finished += folder.finished(shard.name()) ? 'y' : 'n';
    const uint64_t bytes = least_bytes(work.assignment.shards, work.finished, o.rules);
    check_disk_room(folder.folder().held().fd(), o.to, bytes, Reserve::none,
                    "write at least " + std::to_string(bytes >> 20) + " MiB of images");
    const int64_t finished = std::count(work.finished.begin(), work.finished.end(), 'y');
    if (before == ConversionFolder::Before::same)
        terminal.line(formatted("%s: continues: %lld of %zu shards are there", o.to.c_str(), (long long)finished,
                                work.assignment.shards.size()));
    if (before == ConversionFolder::Before::other)
        terminal.line(o.to +
                      ": what was left there is of another source, other options or another version, or was copied "
                      "there; starts over");
    return mark;
}

}  // namespace

int convert_images(Comm& comm, const std::vector<std::string>& args) {
    ImageOptions o;
    comm.together([&] { o = parse_image_options(args); });
    const auto start = Clock::now();
    Terminal terminal(stderr, comm.root());  // stdout is for the result
    const Heartbeat heartbeat(comm.activity(), terminal);
    std::unique_ptr<ConversionFolder> folder;
    Work work;
    std::optional<Destination> to;  // set on rank 0 only
    std::string mark;
    comm.together([&] {
        folder = std::make_unique<ConversionFolder>(destination_of(o.to));
        if (!comm.root()) return;
        to.emplace(o.to, o.force);
        if (const std::string warning = to->warning(); !warning.empty()) terminal.warning(warning);
        mark = begin(comm, o, *folder, work, terminal);
    });
    mark = comm.broadcast(mark);
    comm.together([&] {
        if (!comm.root()) folder->join(mark);
    });
    share_work(comm, *folder, work);
    Mine mine(comm, o, work, *folder);
    each_alone(comm, *folder, [&] { mine.convert(); });
    const std::vector<ShardRecord> records = gather(comm, mine.records());
    PixelCounts pixels(3);
    for (const ShardRecord& record : records)
        if (record.split == "train") pixels.add(record.pixels);
    std::vector<ManifestEntry> sealed;
    each_alone(comm, *folder, [&] { sealed = mine.seal(pixels.statistics()); });
    const std::vector<ManifestEntry> manifest = gather(comm, sealed);
    std::string kept;
    comm.together([&] {
        if (comm.root()) kept = folder->publish(manifest, *to);
    });
    const int64_t converted = comm.sum(mine.converted());
    if (!kept.empty()) terminal.warning(kept);
    terminal.close();
    if (comm.root()) {
        Terminal out(stdout, true);
        print_summary(out, o, work.found, work.source.class_names, records, seconds_since(start), converted);
    }
    return int(Exit::done);
}

}  // namespace convoy
