#include "cli/convert_options.h"

#include <climits>

#include "cli/command_line.h"

namespace convoy {
namespace po = boost::program_options;
using Paths = std::vector<std::string>;

po::options_description image_options() {
    po::options_description options;
    auto add = options.add_options();
    const auto path = [](const char* name) { return po::value<std::string>()->value_name(name); };
    add("from", po::value<Paths>()->multitoken()->value_name("PATH…"),
        "training images: a folder with a folder per class; tar archives; or a list of lines 'PATH LABEL'");
    add("list", path("FILE"), "lines 'PATH LABEL' that say the labels of the images in --from");
    add("val", po::value<Paths>()->multitoken()->value_name("PATH…"), "test images, as --from");
    add("val-list", path("FILE"), "as --list, for --val");
    add("val-share", po::value<double>()->value_name("SHARE")->default_value(0.05, "0.05"),
        "without --val: this share of the images, drawn by --seed, is the test split");
    add("classes", path("FILE"), "lines 'n01440764 tench': names of classes; if labels are numbers, in their order");
    add("short-side", po::value<int64_t>()->value_name("N"),
        "resize to this short side, keeping the aspect (default: 256)");
    add("size", path("HxW"), "resize until HxW is covered, and cut it from the middle: images of one size");
    add("keep-jpeg", po::bool_switch(), "keep the files as they are, to be decoded in training");
    add("strict", po::bool_switch(), "end at the first damaged image; else damaged images are left out and counted");
    add("seed", po::value<int64_t>()->value_name("N")->default_value(0), "of the order of rows");
    add("shards", po::value<int64_t>()->value_name("N"), "number of training shards (default: of about 1 GiB each)");
    add("to", path("DIR"), "where the data set goes; an interrupted conversion continues from DIR.partial");
    add("force", po::bool_switch(), "replace a data set that is already in DIR");
    return options;
}

namespace {

std::string text_or_none(const po::variables_map& values, const char* option) {
    return values.count(option) ? values[option].as<std::string>() : "";
}

int side(const std::string& text, const std::string& whole) {
    const bool digits = !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == std::string::npos;
    const int value = digits ? std::stoi(text) : 0;
    if (value < 1 || value > 4096)
        fail(Exit::usage, "--size: '" + whole + "' is not allowed; it takes HxW, as 256x256, each from 1 to 4096");
    return value;
}

Resize resize_of(const po::variables_map& values) {
    const bool by_side = values.count("short-side"), by_size = values.count("size"),
               kept = values["keep-jpeg"].as<bool>();
    if (by_side + by_size + kept > 1)
        fail(Exit::usage, "--short-side, --size and --keep-jpeg exclude one another; give one of them");
    if (kept) return {};
    if (by_size) {
        const std::string text = values["size"].as<std::string>();
        const size_t cross = std::min(text.find('x'), text.size());
        const int height = side(text.substr(0, cross), text);
        return {Resize::Kind::exact, 0, height, side(text.substr(std::min(cross + 1, text.size())), text)};
    }
    return {Resize::Kind::short_side, by_side ? int(value_in_range(values, "short-side", 1, 4096)) : 256};
}

ImageLayout layout_of(const po::variables_map& values) {
    if (values["keep-jpeg"].as<bool>()) return ImageLayout::jpeg;
    return values.count("size") ? ImageLayout::fixed : ImageLayout::raw;
}

void check_together(const po::variables_map& values) {
    const bool own_test = values.count("val");
    if (own_test && !values["val-share"].defaulted())
        fail(Exit::usage, "--val and --val-share exclude one another; give one of them");
    if (!own_test && values.count("val-list"))
        fail(Exit::usage, "--val-list: says the labels of --val, which is not given; add --val");
}

}  // namespace

ImageOptions parse_image_options(const std::vector<std::string>& args) {
    const po::variables_map values = parse(image_options(), args);
    ImageOptions o;
    if (!values.count("from")) fail(Exit::usage, "--from: is required; it takes a folder, tar archives or a list");
    check_together(values);
    o.train = {values["from"].as<Paths>(), text_or_none(values, "list")};
    if (values.count("val")) o.test = {values["val"].as<Paths>(), text_or_none(values, "val-list")};
    o.to = required_value(values, "to");
    o.classes = text_or_none(values, "classes");
    o.rules = {layout_of(values), resize_of(values), values["strict"].as<bool>()};
    o.sharding.seed = uint64_t(value_in_range(values, "seed", 0, INT64_MAX));
    o.sharding.test_share = values["val-share"].as<double>();
    if (!(o.sharding.test_share > 0 && o.sharding.test_share < 1))
        fail(Exit::usage, "--val-share: must be more than 0 and less than 1");
    if (values.count("shards")) o.sharding.train_shards = value_in_range(values, "shards", 1, 99'999);
    o.force = values["force"].as<bool>();
    return o;
}

}  // namespace convoy
