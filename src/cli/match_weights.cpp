#include "cli/match_weights.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/shorten.h"

namespace convoy {
namespace {

std::string line(const char* problem, const std::string& name, const std::string& shapes) {
    return formatted("  %-11s", problem) + printable(shortened(name)) + " " + shapes;
}

/// Removes `prefix` from all names if all begin with it.
bool drop_from_all(StoredTensors& stored, const std::string& prefix) {
    const auto begins = [&](const StoredTensor& t) { return t.name.starts_with(prefix); };
    if (stored.tensors.empty() || !std::ranges::all_of(stored.tensors, begins)) return false;
    for (StoredTensor& t : stored.tensors) t.name.erase(0, prefix.size());
    return true;
}

bool is_counter(const std::string& name) { return name.ends_with(".num_batches_tracked"); }

}  // namespace

void drop_prefixes(StoredTensors& stored, const std::string& prefix, const std::string& where) {
    if (!prefix.empty()) {
        std::erase_if(stored.tensors, [&](const StoredTensor& t) { return !t.name.starts_with(prefix); });
        if (stored.tensors.empty())
            fail(Exit::bad_input, where + ": no tensor's name begins with '" + prefix + "'; choose another --prefix");
        drop_from_all(stored, prefix);
    }
    while (drop_from_all(stored, "module.") || drop_from_all(stored, "_orig_mod.")) {
    }
}

WeightsMatch match_weights(const std::vector<TorchEntry>& layout, const StoredTensors& stored) {
    std::map<std::string, const StoredTensor*> by_name;
    for (const StoredTensor& t : stored.tensors) by_name[t.name] = &t;
    WeightsMatch match;
    size_t missing = 0, misshapen = 0, unexpected = 0;
    for (const TorchEntry& entry : layout) {
        const auto found = by_name.find(entry.name);
        match.tensors.push_back(found == by_name.end() || entry.param == none ? nullptr : found->second);
        if (found == by_name.end()) {
            if (entry.param == none) continue;  // older files have no counters
            ++missing;
            match.problems.push_back(line("missing", entry.name, "model " + shape_text(entry.dims)));
            continue;
        }
        if (entry.param != none && found->second->shape != entry.dims) {
            ++misshapen;
            match.problems.push_back(
                line("misshapen", entry.name,
                     "model " + shape_text(entry.dims) + ", file " + shortened(shape_text(found->second->shape), 80)));
        }
        by_name.erase(found);
    }
    for (const auto& [name, tensor] : by_name) {
        if (is_counter(name)) continue;
        ++unexpected;
        match.problems.push_back(line("unexpected", name, "file " + shortened(shape_text(tensor->shape), 80)));
    }
    match.summary = formatted("%zu missing, %zu misshapen, %zu unexpected", missing, misshapen, unexpected);
    return match;
}

}  // namespace convoy
