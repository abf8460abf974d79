#include "cli/fine_tuning.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/shell_word.h"
#include "base/shorten.h"
#include "base/text.h"
#include "cli/import_facts.h"
#include "cli/match_weights.h"
#include "cli/option_table.h"
#include "data/weights_file.h"
#include "model/torch_layout.h"

namespace convoy {
namespace {

std::string parse_source(const std::string& /*option*/, const std::string& text) { return text == "none" ? "" : text; }

/// Splits a list of names. Throws Exit::usage if it is long, because each is compared with all
/// parameters.
std::vector<std::string> names_in(const std::string& option, const std::string& text) {
    constexpr size_t most = 1000;  // more than any model has parameters
    std::vector<std::string> names = split(text, ',');
    if (names.size() > most) fail(Exit::usage, "--" + option + " " + shortened(text) + ": give at most 1000 names");
    return names;
}

NamePatterns parse_patterns(const std::string& option, const std::string& text) {
    NamePatterns patterns = names_in(option, text);
    if (std::ranges::count(patterns, "") > 0)
        fail(Exit::usage, "--" + option + " " + text + ": write names separated by commas, as in 'fc.*,stage[34].*'");
    return patterns;
}

std::vector<RateFactor> parse_rate_factors(const std::string& option, const std::string& text) {
    std::vector<RateFactor> factors;
    for (const std::string& item : names_in(option, text)) {
        const size_t equals = item.find('=');
        const NumberList number = parse_numbers(option, equals == std::string::npos ? "" : item.substr(equals + 1));
        if (equals == 0 || number.values.size() != 1 || number.values[0] < 1e-6 || number.values[0] > 1e6)
            fail(Exit::usage, "--" + option + " " + text +
                                  ": write NAME=FACTOR, separated by commas, with factors from 1e-6 to 1e6, as in "
                                  "'fc.*=10,stem.*=0.1'");
        factors.push_back({item.substr(0, equals), number.values[0]});
    }
    return factors;
}

/// Returns the first names, and how many more there are: "a, b, c, d and 3 more".
std::string first_of(const std::vector<std::string>& names, size_t most = 4) {
    if (names.size() <= most) return joined(names, ", ");
    return joined({names.begin(), names.begin() + ptrdiff_t(most)}, ", ") +
           formatted(" and %zu more", names.size() - most);
}

/// A tensor in the file, with the same name as a parameter.
struct Candidate {
    std::vector<int64_t> dims, wanted;  ///< dims: dimensions in the file; wanted: the model's, in the file's order
    std::function<std::vector<float>()> values;
};
/// The file's tensors by ParamId, and those whose name no parameter has.
struct Candidates {
    std::map<ParamId, Candidate> by_param{};
    std::vector<std::string> unexpected{};
    Preprocessing preprocessing{};
};

std::vector<int64_t> dims_of(const Shape& s) { return {s.n, s.h, s.w, s.c}; }

/// Reads a model file or a checkpoint.
Candidates candidates_of_model(const std::string& path, const ModelOptions& model, const Graph& graph) {
    const OpenModel opened(path);
    const ModelFile& file = opened.file();
    if (file.model.name != model.name)
        fail(Exit::bad_input, path + ": holds " + file.model.name + ", and this run trains " + model.name +
                                  "; give --model " + file.model.name + ", or another file");
    const Graph theirs = build_model(file.model);
    const auto values = std::make_shared<std::vector<std::vector<float>>>(opened.values(theirs));
    Candidates found;
    found.preprocessing = file.preprocessing;
    for (size_t i = 0; i < theirs.params.size(); ++i) {
        const Param& p = theirs.params[i];
        const auto own = std::ranges::find(graph.params, p.name, &Param::name);
        if (own == graph.params.end())
            found.unexpected.push_back(p.name);
        else
            found.by_param[ParamId(own - graph.params.begin())] = {dims_of(p.shape), dims_of(own->shape),
                                                                   [values, i] { return (*values)[i]; }};
    }
    return found;
}

/// Reads safetensors, or a file of torch.save().
Candidates candidates_of_weights(const std::shared_ptr<InputBytes>& file, const ModelOptions& model,
                                 const Graph& graph) {
    const auto stored = std::make_shared<StoredTensors>(stored_tensors(*file));
    drop_prefixes(*stored, "", file->path());
    ImportOptions asked;
    asked.from = file->path();
    asked.model = model.name;
    asked.classes = model.classes;
    Candidates found;
    found.preprocessing = facts_of(asked, *stored).preprocessing;
    std::set<std::string> known;
    for (const TorchEntry& entry : torch_layout(graph)) {
        known.insert(entry.name);
        const auto tensor = std::ranges::find(stored->tensors, entry.name, &StoredTensor::name);
        if (entry.param == none || tensor == stored->tensors.end()) continue;
        found.by_param[entry.param] = {tensor->shape, entry.dims, [file, stored, tensor, order = entry.order] {
                                           return from_torch_order(stored_values(*file, *tensor), order);
                                       }};
    }
    for (const StoredTensor& t : stored->tensors)
        if (!known.contains(t.name) && !t.name.ends_with(".num_batches_tracked")) found.unexpected.push_back(t.name);
    return found;
}

bool is_hdf5(const InputBytes& file) {
    constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
    if (file.size() < int64_t(signature.size())) return false;
    std::string first(signature.size(), 0);
    file.read(0, int64_t(first.size()), first.data());
    return first == signature;
}

Candidates candidates_in(const std::string& path, const ModelOptions& model, const Graph& graph) {
    const auto file = std::make_shared<InputBytes>(path, "give a model file, a run folder, or weights of PyTorch");
    if (is_hdf5(*file)) return candidates_of_model(path, model, graph);
    return candidates_of_weights(file, model, graph);
}

/// Returns the parameters whose shape depends on the number of classes.
std::set<ParamId> head_of(const ModelOptions& model, const Graph& graph) {
    ModelOptions other = model;
    ++other.classes;
    const Graph larger = build_model(other);
    std::set<ParamId> head;
    for (size_t id = 0; id < graph.params.size(); ++id)
        if (graph.params[id].shape != larger.params[id].shape) head.insert(ParamId(id));
    return head;
}

/// Returns the names of frozen parameters, and of running statistics that do not change.
std::set<std::string> kept_tensors(const Graph& graph) {
    std::set<std::string> names;
    for (const Param& p : graph.params)
        if (p.frozen) names.insert(p.name);
    for (const Op& op : graph.ops)
        if (const auto* norm = std::get_if<BatchNorm>(&op); norm && norm->fixed)
            for (const ParamId id : {norm->mean, norm->var}) names.insert(graph.params[id].name);
    return names;
}

/// Sorts the parameters of a model into those that are taken from a file and the others.
class Taking {
public:
    Taking(const FineTuning& o, const ModelOptions& model)
        : o_(o), path_(model_in(o.from)), model_(model), graph_(build_model(model)), head_(head_of(model, graph_)) {}

    InitialWeights run() {
        Candidates found = candidates_in(path_, model_, graph_);
        taken_.values.resize(graph_.params.size());
        taken_.preprocessing = found.preprocessing;
        for (size_t id = 0; id < graph_.params.size(); ++id) take(ParamId(id), found);
        for (const std::string& name : found.unexpected)
            if (!is_skipped(name)) problem(name + " is unexpected");
        if (!problems_.empty()) refuse();
        for (const std::string& pattern : o_.skip)
            if (!used_.contains(pattern))
                fail(Exit::usage, "--init-skip " + printable(shortened(pattern)) + ": matches no tensor of " +
                                      model_.name + " and none of " + path_ + "; leave it out");
        summarise();
        return std::move(taken_);
    }

private:
    bool is_skipped(const std::string& name) {
        return note_used([&](const std::string& p) { return fnmatch(p.c_str(), name.c_str(), 0) == 0; });
    }
    bool note_used(const std::function<bool(const std::string&)>& matches) {
        bool any = false;
        for (const std::string& pattern : o_.skip)
            if (matches(pattern)) used_.insert(pattern), any = true;
        return any;
    }

    void take(ParamId id, const Candidates& found) {
        const Param& p = graph_.params[id];
        if (note_used([&](const std::string& pattern) { return matches(pattern, graph_, p); })) {
            skipped_.push_back(p.name);
            return;
        }
        const auto candidate = found.by_param.find(id);
        if (candidate == found.by_param.end()) return problem(p.name + " is missing");
        const auto& [dims, wanted, values] = candidate->second;
        if (dims == wanted) return fill(id, values());
        if (head_.contains(id) && is_other_head(dims, wanted)) {
            new_head_.push_back(p.name);
            return;
        }
        problem(p.name + " is " + shortened(shape_text(dims), 80) + " and not " + shape_text(wanted));
    }
    /// Returns true if only the number of classes differs: the first dimension, or the length of a
    /// bias.
    static bool is_other_head(std::vector<int64_t> dims, std::vector<int64_t> wanted) {
        if (dims.size() != wanted.size() || dims.empty()) return false;
        const size_t at = dims.size() == 4 && wanted[0] == 1 ? 3 : 0;
        dims[at] = wanted[at];
        return dims == wanted;
    }
    void fill(ParamId id, std::vector<float> values) {
        const Param& p = graph_.params[id];
        const bool variance = p.name.ends_with(".var");
        for (const float v : values)
            if (!std::isfinite(v) || (variance && v < 0))
                fail(Exit::bad_input, path_ + ": tensor " + p.name + " has a value " +
                                          (std::isfinite(v) ? "below 0" : "that is not finite") +
                                          "; the file is damaged, or its training diverged: give another");
        taken_.values[id] = std::move(values);
        ++count_;
    }
    void problem(const std::string& text) { problems_.push_back(printable(shortened(text))); }
    [[noreturn]] void refuse() const {
        fail(Exit::bad_input, path_ + ": does not fit " + model_.name + ": " + first_of(problems_, 3) +
                                  "; choose another --model or --stem, or leave tensors out with --init-skip");
    }
    void summarise() {
        taken_.summary = formatted("%zu of %zu tensors from ", count_, graph_.params.size()) + printable(path_);
        if (!new_head_.empty())
            taken_.summary += formatted("; new for %d classes: ", model_.classes) + first_of(new_head_);
        if (!skipped_.empty()) taken_.summary += "; new by --init-skip: " + first_of(skipped_);
    }

    const FineTuning& o_;
    const std::string path_;  // the file of weights: --init-from, or the model in that run folder
    const ModelOptions& model_;
    const Graph graph_;
    const std::set<ParamId> head_;
    InitialWeights taken_;
    size_t count_ = 0;
    std::vector<std::string> new_head_, skipped_, problems_;
    std::set<std::string> used_;  // patterns that matched a tensor
};

}  // namespace

void add_fine_tuning(OptionTable& t, FineTuning& f) {
    t.group("fine-tuning");
    t.parsed("init-from", f.from, "none", parse_source, "FILE",
             "start from these weights: a model file, a checkpoint, a run folder (its best model), or PyTorch's "
             ".safetensors, .pth and .pt; none: random; the last layer gets new weights if the number of classes "
             "differs; a resumed run ignores this option");
    t.list("init-skip", f.skip, parse_patterns, "NAME,NAME", "tensors that get new weights, as in 'fc.*'; or none");
    t.list("freeze", f.freeze, parse_patterns, "NAME,NAME",
           "parameters that keep their initial values, as in 'stem.*,stage[12].*', or none; PyTorch's names "
           "('layer1.*') work too");
    t.flag("freeze-batchnorm", f.freeze_batchnorm,
           "batch norms that --freeze names also keep their running statistics, and normalise with them");
    t.list("lr-factor", f.rate_factors, parse_rate_factors, "NAME=F,NAME=F",
           "factors of the learning rate by name, as in 'fc.*=10,fc.bias=20', or none; the last that matches counts");
}

void take_recorded_freeze(const std::string& recorded, const ModelOptions& model, FineTuning& f,
                          ConfigPairs& resolved) {
    if (config_value(recorded, "model") != model.name) return;  // check_identity() refuses another model
    const std::string text = config_value(recorded, "freeze"), norms = config_value(recorded, "freeze-batchnorm");
    FineTuning before;
    if (!text.empty() && text != "none") before.freeze = parse_patterns("freeze", text);
    before.freeze_batchnorm = norms == "true";
    const Graph graph = build_model(model);
    const std::set<std::string> kept_before = kept_tensors(before.frozen(graph)), kept = kept_tensors(f.frozen(graph));
    std::vector<std::string> only_before, only_now;
    std::ranges::set_difference(kept_before, kept, std::back_inserter(only_before));
    std::ranges::set_difference(kept, kept_before, std::back_inserter(only_now));
    if (!only_before.empty() || !only_now.empty())
        fail(Exit::usage, "frozen parameters (--freeze) are not those of the run to resume:" +
                              (only_before.empty() ? "" : " it also keeps " + first_of(only_before)) +
                              (only_before.empty() || only_now.empty() ? "" : ", and") +
                              (only_now.empty() ? "" : " it does not keep " + first_of(only_now)) + "; give --freeze " +
                              (before.freeze.empty() ? "none" : shell_word(printable(shortened(text)))) +
                              (before.freeze_batchnorm ? " --freeze-batchnorm" : "") +
                              ", or start from the beginning in another --output");
    f.freeze = before.freeze;
    f.freeze_batchnorm = before.freeze_batchnorm;
    set_config_value(resolved, "freeze", before.freeze.empty() ? "none" : text);
    set_config_value(resolved, "freeze-batchnorm", before.freeze_batchnorm ? "true" : "false");
}

std::string rate_factors_text(const std::map<std::string, double>& by_name) {
    std::vector<std::string> factors;
    for (const auto& [name, factor] : by_name) factors.push_back(formatted("%s %g", name.c_str(), factor));
    return factors.empty() ? "" : "; --lr-factor " + first_of(factors);
}

InitialWeights read_initial_weights(const FineTuning& f, const ModelOptions& model) { return Taking(f, model).run(); }

}  // namespace convoy
