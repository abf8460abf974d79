#include "cli/match_weights.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/shorten.h"

namespace convoy {
namespace {

std::string line(const char* problem, const std::string& name, const std::string& shapes) {
    return formatted("  %-11s", problem) + printable(shortened(name)) + " " + shapes;
}

/// Returns true if all names have `prefix` at byte `at`. No name may be shorter than `at`.
bool all_have(const StoredTensors& stored, size_t at, std::string_view prefix) {
    const auto has = [&](const StoredTensor& t) { return std::string_view(t.name).substr(at).starts_with(prefix); };
    return !stored.tensors.empty() && std::ranges::all_of(stored.tensors, has);
}

bool is_counter(const std::string& name) { return name.ends_with(".num_batches_tracked"); }

}  // namespace

void drop_prefixes(StoredTensors& stored, const std::string& prefix, const std::string& where) {
    if (!prefix.empty()) {
        std::erase_if(stored.tensors, [&](const StoredTensor& t) { return !t.name.starts_with(prefix); });
        if (stored.tensors.empty())
            fail(Exit::bad_input, where + ": no tensor's name begins with '" + prefix + "'; choose another --prefix");
    }
    // Prefixes are erased together, because a name of megabytes may repeat a prefix many times.
    size_t dropped = prefix.size();
    for (size_t before = std::string::npos; dropped != before;) {
        before = dropped;
        for (const std::string_view usual : {"module.", "_orig_mod."})
            if (all_have(stored, dropped, usual)) dropped += usual.size();
    }
    for (StoredTensor& t : stored.tensors) t.name.erase(0, dropped);
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
