// convoy import: makes a model file from weights of PyTorch, which 'convoy export' or other
// programs wrote. Nothing in the file is executed.
#include <algorithm>
#include <cstdio>

#include "base/durable.h"
#include "base/shorten.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/import_facts.h"
#include "cli/match_weights.h"
#include "cli/model_data.h"
#include "data/weights_file.h"
#include "model/torch_layout.h"

namespace convoy {
namespace po = boost::program_options;

namespace {

po::options_description description(ImportOptions& o) {
    const auto text = [](std::string& value, const char* name) {
        return po::value<std::string>(&value)->value_name(name);
    };
    const auto raw = [](const char* name) { return po::value<std::string>()->default_value("", "")->value_name(name); };
    po::options_description options;
    auto add = options.add_options();
    add("from", text(o.from, "FILE"), "weights: NAME.safetensors, or .pth or .pt of torch.save()");
    add("to", text(o.to, "FILE"), "the model file to write: NAME.h5");
    add("model", text(o.model, "NAME"), "model of the weights (default: the one that convoy export recorded)");
    add("data", text(o.data, "DIR"), "take class names, mean, deviation and image size from this data set");
    add("classes", po::value<int64_t>()->value_name("N"), "number of classes (default: rows of the last layer)");
    add("class-names", text(o.class_names, "FILE"),
        "the name of a class in each line (default: the data set's, the file's, or 'class 0', ...)");
    add("image-size", raw("SIDE"),
        "side of the square that the model sees (default: the data set's, the file's, 224 if a resnet begins with a "
        "7x7 convolution, else 32)");
    add("resize", po::value<int64_t>()->value_name("N"),
        "resize images to this short side, and take the centre (default: 256 for 224 pixels if a resnet begins with "
        "a 7x7 convolution, else no resizing)");
    add("normalize", text(o.normalize, "SET"),
        "mean and deviation of imagenet, cifar10 or mnist, or none (default: those of --data or of the file; else "
        "imagenet for a resnet that begins with a 7x7 convolution, mnist for grey images, cifar10 for others)");
    add("mean", raw("M,M,M"), "channel means of pixel / 255");
    add("stddev", raw("S,S,S"), "channel deviations of pixel / 255");
    add("prefix", text(o.prefix, "TEXT"),
        "take only tensors whose names begin with TEXT, and remove it; 'module.' before all names is removed anyway");
    add("key", text(o.key, "KEY"),
        "entry of a torch.save() file that holds the tensors (default: state_dict, model or model_state_dict)");
    add("overwrite", po::bool_switch(&o.overwrite), "replace a file that is there");
    return options;
}

ImportOptions parse_import(const std::vector<std::string>& args) {
    ImportOptions o;
    const po::variables_map values = parse(description(o), args);
    required_value(values, "from");
    required_value(values, "to");
    if (!o.to.ends_with(".h5")) fail(Exit::usage, "--to " + o.to + ": this writes HDF5; name a file NAME.h5");
    if (values.count("classes")) o.classes = int(value_in_range(values, "classes", 1, 1'000'000));
    if (values.count("resize")) o.resize = int(value_in_range(values, "resize", 1, 8192));
    o.image_size = parse_image_side("image-size", values["image-size"].as<std::string>());
    if (o.image_size.images.h > 0 || !o.image_size.earlier.empty())
        fail(Exit::usage, "--image-size " + o.image_size.text + ": give one side in pixels, as in 224");
    o.mean = parse_numbers("mean", values["mean"].as<std::string>());
    o.stddev = parse_deviations("stddev", values["stddev"].as<std::string>());
    if (!o.normalize.empty() && !o.mean.values.empty() && !o.stddev.values.empty())
        fail(Exit::usage, "--normalize is instead of --mean and --stddev; leave one of them out");
    check_may_write(o.to, o.overwrite);
    return o;
}

/// Prints the tensors that do not fit. Returns the exit code.
int refuse_weights(const ImportOptions& o, const ModelFile& m, const WeightsMatch& match) {
    constexpr size_t most = 1000;
    std::fprintf(stderr,
                 "convoy: %s: does not fit model %s with %d classes: %s; choose --model, --classes or --prefix\n",
                 printable(o.from).c_str(), printable(m.model.name).c_str(), m.model.classes, match.summary.c_str());
    for (size_t i = 0; i < std::min(most, match.problems.size()); ++i)
        std::fprintf(stderr, "%s\n", match.problems[i].c_str());
    if (match.problems.size() > most) std::fprintf(stderr, "  and %zu more\n", match.problems.size() - most);
    return int(Exit::bad_input);
}

/// Reads the parameters of `graph`, by ParamId.
std::vector<std::vector<float>> read_values(const InputBytes& file, const Graph& graph,
                                            const std::vector<TorchEntry>& layout, const WeightsMatch& match) {
    std::vector<std::vector<float>> values(graph.params.size());
    for (size_t i = 0; i < layout.size(); ++i) {
        if (layout[i].param == none) continue;
        const std::vector<float> theirs = stored_values(file, *match.tensors[i]);
        if (layout[i].name.ends_with(".running_var") && std::ranges::any_of(theirs, [](float v) { return v < 0; }))
            fail(Exit::bad_input, file.path() + ": tensor " + layout[i].name +
                                      " has a negative variance; the file is damaged, get it again");
        values[layout[i].param] = from_torch_order(theirs, layout[i].order);
    }
    return values;
}

/// Prints what was written, with every fact that may have been a default.
void print_result(const ImportOptions& o, const ModelFile& m, const Graph& graph) {
    const auto numbers = [](const std::vector<float>& list) {
        std::string text;
        for (const float v : list) text += formatted("%s%.4g", text.empty() ? "" : ",", double(v));
        return text;
    };
    const std::string resized =
        m.preprocessing.short_side > 0 ? formatted(" (short side %d)", m.preprocessing.short_side) : "";
    std::printf("%s: %s of %s, %s parameters; images %dx%dx%d%s, mean %s, stddev %s; %d classes from '%s'\n",
                printable(o.to).c_str(), printable(m.model.name).c_str(), printable(o.from).c_str(),
                grouped(graph.parameter_count()).c_str(), m.model.h, m.model.w, m.model.c, resized.c_str(),
                numbers(m.preprocessing.mean).c_str(), numbers(m.preprocessing.stddev).c_str(), m.model.classes,
                printable(shortened(m.class_names.front(), 40)).c_str());
}

}  // namespace

OptionGroups options_of_import() {
    ImportOptions o;
    return one_group(description(o));
}

int import_model(const std::vector<std::string>& args) {
    const ImportOptions o = parse_import(args);
    const InputBytes file(o.from, "give a safetensors file, or one of torch.save()");
    StoredTensors stored = stored_tensors(file, o.key);
    drop_prefixes(stored, o.prefix, o.from);
    const ModelFile m = facts_of(o, stored);
    const Graph graph = build_model(m.model);
    const std::vector<TorchEntry> layout = torch_layout(graph);
    const WeightsMatch match = match_weights(layout, stored);
    if (!match.problems.empty()) return refuse_weights(o, m, match);
    const std::vector<std::vector<float>> values = read_values(file, graph, layout, match);
    replace_file(o.to, model_image(m, graph, values), o.overwrite ? IfThere::replace : IfThere::refuse);
    print_result(o, m, graph);
    return 0;
}

}  // namespace convoy
