#include "tests/fuzz/readers.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include <sys/stat.h>

#include "cli/train_options.h"
#include "data/digest.h"
#include "data/image_list.h"
#include "data/shard.h"
#include "data/split_pieces.h"
#include "model/models.h"
#include "run/metrics_file.h"
#include "tests/fuzz/figures.h"
#include "tests/fuzz/hdf5.h"
#include "tests/fuzz/pictures.h"
#include "tests/fuzz/weights.h"
#include "tests/support/images.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

std::string text(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

/// Writes `good` to `path`, then makes it hostile or replaces it.
void write_hostile(const std::string& path, const std::string& good, Bytes bytes) {
    if (!bytes.empty() && bytes[0] == 1) return write_file(path, text(bytes.subspan(1)));
    write_file(path, good);
    if (bytes.empty()) return;
    bytes[0] < first_kind ? make_hostile(path, bytes.subspan(1))
                          : make_hostile_of_kind((bytes[0] - first_kind) / 4, path, bytes.subspan(1));
}

/// Returns the files that `make(folder)` leaves in a fresh folder, as content by file name.
std::map<std::string, std::string> files_of(const std::function<void(const std::string&)>& make) {
    TempDir dir;
    make(dir.path());
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(dir.path()))
        if (entry.is_regular_file()) files[entry.path().filename()] = read_file(entry.path());
    return files;
}

using Files = std::map<std::string, std::string>;

/// Reads a split without HDF5, and compares with `values`, which HDF5 read.
void read_pieces(const SplitReader& reader, const std::vector<uint8_t>& values) {
    const SplitPieces pieces(reader);
    SplitPieces::Scratch scratch;
    std::vector<uint8_t> read(values.size());
    size_t at = 0;
    for (size_t i = 0; i < pieces.all().size(); ++i) {
        require(pieces.all()[i].bytes <= values.size() - at, "pieces are no larger than their split");
        pieces.read(i, read.data() + at, scratch);
        at += pieces.all()[i].bytes;
    }
    require(at == values.size() && read == values, "pieces hold what HDF5 reads");
}

/// Reads the training split of a good data set whose only training shard is made hostile.
void read_data_set(const std::string& dir, const Files& good, const std::string& shard, Bytes bytes) {
    for (const auto& [name, content] : good) write_file(dir + "/" + name, content);
    // a target for links of hostile files: opening it blocks for ever
    mkfifo((dir + "/pipe").c_str(), 0600);
    write_hostile(dir + "/" + shard, good.at(shard), bytes);
    auto manifest = nlohmann::json::parse(good.at("manifest.json"));
    for (auto& entry : manifest["shards"])
        if (entry["file"] == shard) {
            entry["bytes"] = fs::file_size(dir + "/" + shard);
            entry["sha256"] = digest_of_file(Digest::Kind::sha256, dir + "/" + shard);
        }
    write_file(dir + "/manifest.json", manifest.dump());
    const SplitReader reader(dir, "train");
    const SplitInfo& info = reader.info();
    std::vector<uint8_t> values(info.image_bytes());
    std::vector<int32_t> labels(size_t(info.images), 0);
    reader.read(0, info.images, values.data(), labels.data());
    read_pieces(reader, values);
}

void read_shard(const std::string& dir, Bytes bytes) {
    static const Files images = files_of([](const std::string& folder) {
        write_data_set(make_synthetic({12, 4, 4, 4, 1, 3, 1}), folder + "/set", 1, false);
    });
    static const Files vectors = files_of([](const std::string& folder) {
        write_data_set(make_normal({10, 4, 1, 1, 10, 3, 1}), folder + "/set", 1, false);
    });
    read_data_set(dir, !bytes.empty() && (bytes[0] & 2) ? vectors : images, shard_name("train", 0, 1), bytes);
}

void read_ragged(const std::string& dir, Bytes bytes) {
    static const Files pixels =
        files_of([](const std::string& folder) { make_ragged(folder + "/set", ImageLayout::raw, 6); });
    static const Files jpegs =
        files_of([](const std::string& folder) { make_ragged(folder + "/set", ImageLayout::jpeg, 6); });
    read_data_set(dir, !bytes.empty() && (bytes[0] & 2) ? jpegs : pixels, shard_name("train", 0, 2), bytes);
}

void read_archive(const std::string& dir, Bytes bytes) {
    static const std::string good = [] {
        const TempDir folder;
        write_file(folder.path("n01/a.jpg"), "a");
        write_file(folder.path("n02/b.jpg"), "b");
        run("cd " + folder.path() + " && tar --format=pax -cf ../" + fs::path(folder.path()).filename().string() +
            "/x.tar n01 n02");
        return read_file(folder.path("x.tar"));
    }();
    const bool whole = !bytes.empty() && (bytes[0] & 1);
    write_file(dir + "/x.tar",
               whole ? text(bytes.subspan(1)) : changed(good, bytes.empty() ? bytes : bytes.subspan(1)));
    const OwnFolder working = OwnFolder::make_or_take(dir + "/working", "");
    ImageList list = list_images({{dir + "/x.tar"}, "", &working, "unpacked"});
    name_classes(list, "");
}

/// The state of a small model, with its checkpoint and model file.
struct Trained {
    ModelOptions options{"linear", 1, 1, 10, 10};
    Graph graph = build_model(options);
    std::unique_ptr<Backend> backend = make_cpu_backend(BackendOptions{.threads = 1}, test_comm());
    OptimizerSpec optimizer;
    State state{graph, *backend, &optimizer};
    Identity identity{{"model", "linear"}, {"seed", "1"}};
    std::map<std::string, std::string> good = files_of([&](const std::string& folder) {
        Checkpoint c;
        c.model = {options,
                   {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
                   std::vector<std::string>(10, "class")};
        c.identity = identity;
        c.weights.resize(state.weights().count());
        c.optimizer.resize(state.optimizer_block().count());
        c.running.resize(state.running().count());
        write_checkpoint(folder + "/checkpoint.h5", c, state);
        save_model(folder + "/model.h5", c.model, state, *backend);
    });
};

Trained& trained() {
    static Trained one;
    return one;
}

void read_a_checkpoint(const std::string& dir, Bytes bytes) {
    Trained& t = trained();
    write_hostile(dir + "/checkpoint.h5", t.good.at("checkpoint.h5"), bytes);
    mkfifo((dir + "/pipe").c_str(), 0600);
    read_checkpoint(dir + "/checkpoint.h5", t.state, t.identity);
}

void read_a_model(const std::string& dir, Bytes bytes) {
    Trained& t = trained();
    write_hostile(dir + "/model.h5", t.good.at("model.h5"), bytes);
    mkfifo((dir + "/pipe").c_str(), 0600);
    const OpenModel model(dir + "/model.h5");
    build_model(model.file().model);
    model.load(t.state, *t.backend);
}

void read_metrics_file(const std::string& dir, Bytes bytes) {
    static const std::string good = [] {
        GrowingTables tables;
        auto& [train, tests, epochs, ranks, rank_epochs, system, events] = tables;
        for (int64_t step = 1; step <= 5; ++step) train.push_back({.step = step, .epoch = 1, .loss = 0.5});
        epochs.push_back({.epoch = 1, .images = 50});
        ranks.push_back({.rank = 0, .host = "host", .device = "cpu"});
        events.push_back({.time = 1, .iso_time = "now", .step = 5, .kind = "checkpoint", .message = "written"});
        MetricsAttributes run{{"ranks", int64_t(1)}, {"rate", 0.1}};
        for (const char name : std::string("abcdefghij")) run.emplace_back(std::string(1, name), "a text");
        return text(metrics_image(tables, run, "metrics.h5"));
    }();
    write_hostile(dir + "/metrics.h5", good, bytes);
    mkfifo((dir + "/pipe").c_str(), 0600);
    read_metrics(dir + "/metrics.h5");
}

std::string idx(std::vector<uint8_t> dims, size_t bytes) {
    std::string file{0, 0, 8, char(dims.size())};
    for (uint8_t side : dims) file += std::string{0, 0, 0, char(side)};
    return file + std::string(bytes, '\1');
}

void read_source(const Source& source) {
    for (const Split& split : source.splits) {
        std::vector<uint8_t> images(size_t(split.images) * size_t(split.image_bytes()));
        std::vector<int32_t> labels(size_t(split.images));
        split.read(0, split.images, images.data(), labels.data());
    }
}

void read_idx(const std::string& dir, Bytes bytes) {
    std::vector<std::pair<std::string, std::string>> files = {{"train-images-idx3-ubyte", idx({3, 2, 2}, 12)},
                                                              {"train-labels-idx1-ubyte", idx({3}, 3)},
                                                              {"t10k-images-idx3-ubyte", idx({2, 2, 2}, 8)},
                                                              {"t10k-labels-idx1-ubyte", idx({2}, 2)}};
    if (!bytes.empty()) files[bytes[0] % files.size()].second = text(bytes.subspan(1));
    for (const auto& [name, content] : files) write_file(dir + "/" + name, content);
    read_source(decode_idx(dir, {}));
}

void read_cifar10(const std::string& dir, Bytes bytes) {
    if (!bytes.empty() && bytes[0] == 0) {
        write_file(dir + "/cifar-10-binary.tar.gz", text(bytes.subspan(1)));
        return read_source(decode_cifar10(dir + "/cifar-10-binary.tar.gz", 0));
    }
    std::vector<std::pair<std::string, std::string>> files = {{"batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"},
                                                              {"test_batch.bin", ""}};
    for (int i = 1; i <= 5; ++i) files.emplace_back("data_batch_" + std::to_string(i) + ".bin", "");
    for (auto& [name, content] : files)
        if (content.empty()) content.assign(3073, '\1');
    if (!bytes.empty()) files[bytes[0] % files.size()].second = text(bytes.subspan(1));
    for (const auto& [name, content] : files) write_file(dir + "/" + name, content);
    read_source(decode_cifar10(dir, 0));
}

constexpr size_t pickled_pixels = 2 * 3072;

/// Returns a batch of two images, as Python 2 wrote it.
std::string pickled_batch() {
    constexpr char head[] =
        "\200\002}q\001(U\013batch_labelq\002U\001xq\003U\006labelsq\004]q\005(K\006K\011eU\004dataq\006"
        "cnumpy.core.multiarray\n_reconstruct\nq\007cnumpy\nndarray\nq\010K\000\205U\001b\207Rq\011(K\001K\002M\000\014"
        "\206cnumpy\ndtype\nU\002u1K\000K\001\207R(K\003U\001|"
        "NNNJ\377\377\377\377J\377\377\377\377K\000tb\211T\000\030\000\000";
    return std::string(head, sizeof head - 1) + std::string(pickled_pixels, '\1') + "tbu.";
}

std::string pickled_names() {
    std::string names;
    for (const char name : std::string("abcdefghij")) names += std::string("U\001", 2) + name;
    return std::string("\200\002}U\013label_names](", 18) + names + "es.";
}

/// Changes up to three bytes of the pickle at positions from `bytes` (two bytes per position, one
/// for the new value). Pixels stay, because these may be anything.
std::string changed_pickle(std::string pickle, Bytes bytes) {
    bytes = bytes.first(std::min<size_t>(bytes.size(), 9));
    const size_t pixels = pickle.size() > pickled_pixels ? pickled_pixels : 0, structure = pickle.size() - pixels;
    for (; bytes.size() >= 3; bytes = bytes.subspan(3)) {
        const size_t place = (bytes[0] * 256u + bytes[1]) % structure;
        pickle[place < structure - 4 ? place : place + pixels] = char(bytes[2]);
    }
    return pickle;
}

void read_pickle(const std::string& dir, Bytes bytes) {
    std::map<std::string, std::string> files = {{"batches.meta", pickled_names()}, {"test_batch", pickled_batch()}};
    for (int i = 1; i <= 5; ++i) files["data_batch_" + std::to_string(i)] = pickled_batch();
    if (!bytes.empty()) {
        std::string& file = files[bytes[0] & 1 ? "batches.meta" : "data_batch_3"];
        file = bytes[0] & 2 ? text(bytes.subspan(1)) : changed_pickle(file, bytes.subspan(1));
    }
    for (const auto& [name, content] : files) write_file(dir + "/" + name, content);
    read_source(decode_cifar10(dir, 0));
}

void read_recipe(const std::string& dir, Bytes bytes) {
    write_file(dir + "/my.cfg", text(bytes));
    parse_train_options({"--config", dir + "/my.cfg", "--data", "x", "--batch-size", "1", "--batch-per-rank", "0"});
}

const std::map<std::string, void (*)(const std::string&, Bytes)> readers = {{"shard", read_shard},
                                                                            {"ragged", read_ragged},
                                                                            {"image", read_jpeg},
                                                                            {"webp", read_webp},
                                                                            {"gif", read_gif},
                                                                            {"bmp", read_bmp},
                                                                            {"tiff", read_tiff},
                                                                            {"archive", read_archive},
                                                                            {"checkpoint", read_a_checkpoint},
                                                                            {"model", read_a_model},
                                                                            {"idx", read_idx},
                                                                            {"cifar10", read_cifar10},
                                                                            {"pickle", read_pickle},
                                                                            {"recipe", read_recipe},
                                                                            {"metrics", read_metrics_file},
                                                                            {"safetensors", read_safetensors},
                                                                            {"pth", read_pth},
                                                                            {"oldpth", read_old_pth},
                                                                            {"figures", read_figures}};

}  // namespace

const std::vector<std::string>& fuzz_reader_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const auto& [name, read] : readers) all.push_back(name);
        return all;
    }();
    return names;
}

std::string feed(const std::string& reader, const std::string& dir, Bytes bytes) {
    try {
        readers.at(reader)(dir, bytes);
        return "";
    } catch (const Error& error) {
        const std::string message = error.what();
        require(error.code == Exit::bad_input || error.code == Exit::usage,
                ("the refusal is one of the file: " + message).c_str());
        require(
            !message.empty() && std::none_of(message.begin(), message.end(), [](char c) { return uint8_t(c) < ' '; }),
            ("a refusal is one line of text: " + message).c_str());
        return message;
    }
}

}  // namespace convoy::test
