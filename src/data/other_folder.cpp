// Looks at few entries, and only at their names: a folder of a million pictures takes no longer
// than one of fifty.
#include "data/other_folder.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/folder.h"
#include "base/shell_word.h"
#include "data/image_names.h"
#include "data/shard.h"

namespace convoy {
namespace fs = std::filesystem;
namespace {

constexpr size_t most_looked_at = 50;  // limit for the entries of a folder, and for the folders in it

/// Returns up to most_looked_at paths in `folder` that are not hidden.
std::vector<fs::path> some_of(const fs::path& folder) {
    std::vector<fs::path> paths;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end && paths.size() < most_looked_at;
         entry.increment(error))
        if (!is_hidden(entry->path().filename().string())) paths.push_back(entry->path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

bool is_folder(const fs::path& path) {
    std::error_code error;
    return fs::is_directory(path, error);
}

/// True if pictures are in `folder`, or in folders down to `depth` levels below it.
bool holds_pictures(const fs::path& folder, int depth) {
    const std::vector<fs::path> paths = some_of(folder);
    return std::any_of(paths.begin(), paths.end(), [&](const fs::path& path) {
        return is_image_name(path.filename().string()) ||
               (depth > 0 && is_folder(path) && holds_pictures(path, depth - 1));
    });
}

bool is_data_set(const fs::path& folder) { return is_there(folder / "manifest.json"); }

/// Returns the advice "convoy convert SOURCE … --to DIR-shards; then --data DIR-shards".
std::string command(const std::string& source, const fs::path& from, const std::string& to) {
    if (is_data_set(to)) return "give the data set of shards that is there: --data " + shell_word(to);
    const std::vector<std::string> others = {"val", "test"};
    std::string paths = "--from " + shell_word(from.string());
    if (source == "imagefolder" && is_folder(from / "train"))
        for (const std::string& test : others)
            if (holds_pictures(from / test, 1)) {
                paths =
                    "--from " + shell_word((from / "train").string()) + " --val " + shell_word((from / test).string());
                break;
            }
    return "make one of them: convoy convert " + source + " " + paths + " --to " + shell_word(to) +
           ", then give --data " + shell_word(to);
}

/// Returns a folder beside `dir`, to suggest for its data set.
std::string beside(const fs::path& dir) {
    std::error_code error;
    fs::path path = dir.lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    if (path.empty() || path.filename() == "." || path.filename() == "..") path = fs::weakly_canonical(dir, error);
    if (is_archive_name(path.string()))
        while (path.has_extension()) path.replace_extension();
    return path.string() + "-shards";
}

/// Returns what a folder holds instead of shards, and what to do; empty if it is not recognised.
std::string instead(const fs::path& dir) {
    const std::vector<fs::path> paths = some_of(dir);
    const auto has = [&](const char* name) { return is_there(dir / name); };
    if (has("metrics.h5") || has("metrics.jsonl"))
        return "holds a run, not a data set; give the data set that it was trained on, or another one";
    for (const fs::path& path : paths)
        if (is_data_set(path))
            return "holds no shards, but " + path.string() + " does; give --data " + shell_word(path.string());
    for (const char* cifar : {"data_batch_1.bin", "data_batch_1", "cifar-10-batches-bin", "cifar-10-batches-py"})
        if (has(cifar))
            return "holds CIFAR-10 as it is downloaded, not shards; " + command("cifar10", dir, beside(dir));
    for (const char* mnist : {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"})
        if (has(mnist)) return "holds MNIST as it is downloaded, not shards; " + command("mnist", dir, beside(dir));
    if (holds_pictures(dir, 2)) return "holds pictures, not shards; " + command("imagefolder", dir, beside(dir));
    return "";
}

[[noreturn]] void fail_as_file(const std::string& path) {
    const fs::path folder = fs::path(path).parent_path();
    if (is_data_set(folder) || (folder.empty() && is_data_set(".")))
        fail(Exit::bad_input, path + ": is one file of a data set; give its folder: --data " +
                                  (folder.empty() ? "." : shell_word(folder.string())));
    if (is_archive_name(path))
        fail(Exit::bad_input,
             path + ": is an archive, not a folder of shards; " + command("imagefolder", path, beside(path)));
    fail(Exit::bad_input, path + ": is a file; a data set is a folder of shards, which 'convoy convert' makes");
}

}  // namespace

void check_holds_shards(const std::string& dir) {
    std::error_code error;
    if (fs::is_regular_file(dir, error)) fail_as_file(dir);
    if (is_data_set(dir)) return;
    const std::vector<std::string> names =
        files_in(dir, "'convoy convert' makes a data set, 'make data' fetches CIFAR-10");
    std::string split;
    int shard = 0, shards = 0;
    if (std::any_of(names.begin(), names.end(),
                    [&](const std::string& name) { return parse_shard_name(name, split, shard, shards); }))
        return;
    const std::string what = instead(dir);
    if (!what.empty()) fail(Exit::bad_input, dir + ": " + what);
}

}  // namespace convoy
