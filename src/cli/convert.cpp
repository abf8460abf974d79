// convoy convert cifar10|cifar100|mnist|synthetic: makes a data set of HDF5 shards, on one rank.
// The destination appears complete or not at all. convert_images.cpp has the command imagefolder.
#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "cli/choices.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/convert_options.h"
#include "cli/convert_summary.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include "data/decode.h"
#include "data/destination.h"
#include "data/shard.h"

namespace convoy {
namespace po = boost::program_options;
namespace {

constexpr const char* of_images = "imagefolder";
const std::vector<std::string> kinds = {"cifar10", "cifar100", "mnist", of_images, "synthetic"};

using MakeSynthetic = Source (*)(const SyntheticShape&);

Choices<MakeSynthetic> synthetic_kinds() {
    return {{"images", make_synthetic, "of uint8, learnable"},
            {"normal", make_normal, "vectors of float32, standard normal numbers, of random classes"}};
}

po::options_description options_of(const std::string& kind) {
    if (kind == of_images) return image_options();
    po::options_description options;
    auto add = options.add_options();
    if (kind == "cifar10" || kind == "cifar100") {
        const std::string archive = kind == "cifar10" ? "cifar-10" : "cifar-100",
                          from = archive + "-binary.tar.gz, " + archive +
                                 "-python.tar.gz, or the folder unpacked from one";
        add("from", po::value<std::string>()->value_name("PATH"), from.c_str());
        add("limit-per-file", po::value<int64_t>()->value_name("N")->default_value(0),
            "take only the first N images of each file; 0 takes all");
        if (kind == "cifar100") add("coarse", po::bool_switch(), "the 20 superclasses, not the 100 classes");
    } else if (kind == "mnist") {
        add("from", po::value<std::string>()->value_name("DIR"),
            "folder with train-images-idx3-ubyte[.gz] and the other three");
        add("class-names", po::value<std::string>()->value_name("A,B,…"),
            "names of the classes, separated by commas (default 0 to 9)");
    } else {
        add("kind", po::value<std::string>()->value_name("KIND")->default_value("images"),
            help_of(synthetic_kinds()).c_str());
        add("images", po::value<int64_t>()->value_name("N"), "number of training images");
        add("test-images", po::value<int64_t>()->value_name("N"),
            "number of test images (default a fifth of --images, at least 1)");
        add("size", po::value<std::string>()->value_name("HxWxC")->default_value("32x32x3"),
            "height, width and channels of an image");
        add("classes", po::value<int64_t>()->value_name("N")->default_value(10), "number of classes");
        add("seed", po::value<int64_t>()->value_name("N")->default_value(0), "another seed gives another data set");
    }
    add("to", po::value<std::string>()->value_name("DIR"), "where the data set goes");
    add("shards", po::value<int64_t>()->value_name("N")->default_value(5), "number of training shards");
    add("force", po::bool_switch(), "replace a data set that is already in DIR");
    return options;
}

std::vector<std::string> split_names(const std::string& text) {
    const std::vector<std::string> names = split(text, ',');
    for (const std::string& name : names)
        if (name.empty())
            fail(Exit::usage, "--class-names: '" + text + "' has an empty name; it takes names separated by commas");
    if (names.empty() || names.size() > 256)
        fail(Exit::usage, "--class-names: it takes 1 to 256 names separated by commas");
    return names;
}

SyntheticShape synthetic_shape(const po::variables_map& values) {
    constexpr int64_t most_images = 1'000'000'000, most_classes = 1'000'000;
    if (!values.count("images")) fail(Exit::usage, "--images: is required; it takes the number of training images");
    SyntheticShape shape;
    shape.images = value_in_range(values, "images", 1, most_images);
    shape.test_images = std::max<int64_t>(1, shape.images / 5);
    if (values.count("test-images")) shape.test_images = value_in_range(values, "test-images", 1, most_images);
    shape.classes = int(value_in_range(values, "classes", 1, most_classes));
    shape.seed = uint64_t(value_in_range(values, "seed", 0, INT64_MAX));
    const Shape size = parse_image_size("size", values["size"].as<std::string>());
    shape.height = size.h;
    shape.width = size.w;
    shape.channels = size.c;
    return shape;
}

Source source_of(const std::string& kind, const po::variables_map& values) {
    if (kind == "cifar10" || kind == "cifar100") {
        const std::string from = required_value(values, "from");
        const int64_t limit = value_in_range(values, "limit-per-file", 0, INT_MAX);
        return kind == "cifar10" ? decode_cifar10(from, limit)
                                 : decode_cifar100(from, limit, values["coarse"].as<bool>());
    }
    if (kind == "mnist") {
        std::vector<std::string> names;
        if (values.count("class-names")) names = split_names(values["class-names"].as<std::string>());
        return decode_idx(required_value(values, "from"), names);
    }
    return choose("kind", values["kind"].as<std::string>(), synthetic_kinds())(synthetic_shape(values));
}

/// Returns the number of images to read. Training images are read twice: for the channels'
/// statistics, and to be written.
int64_t images_to_read(const Source& source) {
    int64_t images = source.splits[0].images;
    for (const Split& split : source.splits) images += split.images;
    return images;
}

/// Number of images of each class that were read, by split; images that are read twice count twice.
using ClassCounts = std::map<std::string, std::vector<int64_t>>;

/// Wraps the source's readers, so that they report progress to `activity` and count images in
/// `counts`.
void count_images(Source& source, Activity& activity, ClassCounts& counts) {
    const auto done = std::make_shared<int64_t>(0);
    for (Split& split : source.splits) {
        std::vector<int64_t>& classes = counts[split.name];
        classes.resize(source.class_names.size());
        split.read = [read = split.read, done, &activity, &classes](int64_t first, int64_t rows, uint8_t* images,
                                                                    int32_t* labels) {
            read(first, rows, images, labels);
            for (int64_t i = 0; labels && i < rows; ++i) ++classes.at(size_t(labels[i]));
            activity.advance(*done += rows);
        };
    }
}

}  // namespace

OptionGroups options_of_convert() {
    OptionGroups groups;
    for (const std::string& kind : kinds) groups.push_back({kind, options_of(kind).options()});
    return groups;
}

int convert(Comm& comm, const std::vector<std::string>& args) {
    if (!args.empty() && args[0] == of_images) return convert_images(comm, {args.begin() + 1, args.end()});
    int code = 0;
    comm.together([&] {
        if (comm.root()) code = convert(args);
    });
    return code;
}

int convert(const std::vector<std::string>& args) {
    if (args.empty()) fail(Exit::usage, "convert: say what: " + list_of(kinds) + "; see convoy convert -h");
    const std::string& kind = args[0];
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
        fail(Exit::usage, "convert " + kind + ": there is no such source" +
                              (kind.starts_with("-") || std::filesystem::is_directory(kind)
                                   ? "; for a folder of pictures: convoy convert imagefolder --from FOLDER --to DIR"
                                   : did_you_mean(kind, kinds, "it takes " + list_of(kinds))));
    const po::variables_map values = parse(options_of(kind), {args.begin() + 1, args.end()});
    const std::string to = required_value(values, "to");
    const int shards = int(value_in_range(values, "shards", 1, 99'999));
    const Destination destination(to, values["force"].as<bool>());  // checks it before minutes of decoding
    const auto start = std::chrono::steady_clock::now();
    Activity activity;
    Terminal terminal(stderr, true);  // stdout is for the result
    const Heartbeat heartbeat(activity, terminal);
    activity.enter("reading the source");
    Source source = source_of(kind, values);
    const Phase phase(activity, "convert", "image", 0, images_to_read(source));
    ClassCounts counts;
    count_images(source, activity, counts);
    for (const std::string& warning : source.warnings) terminal.warning(warning);
    if (const std::string warning = destination.warning(); !warning.empty()) terminal.warning(warning);
    if (const std::string kept = write_data_set(source, destination, shards); !kept.empty()) terminal.warning(kept);
    terminal.close();
    std::string made = to + ": ";
    for (const Split& split : source.splits) made += std::to_string(split.images) + " " + split.name + " images, ";
    const Split& train = source.splits[0];
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    Terminal out(stdout, true);
    out.line(made + formatted("%dx%dx%d, %zu classes, source checksum %s, %.1f s", train.height, train.width,
                              train.channels, source.class_names.size(), source.checksum.c_str(), seconds));
    for (const Split& split : source.splits)
        if (const std::string line = classes_without_images(split.name, source.class_names, counts[split.name]);
            !line.empty())
            out.line("  " + line);
    return int(Exit::done);
}

}  // namespace convoy
