#include "model/name_patterns.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/error.h"
#include "base/shorten.h"
#include "base/text.h"
#include "model/torch_names.h"

namespace convoy {

bool matches(const std::string& pattern, const Graph& graph, const Param& p) {
    const auto is = [&](const std::string& name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
    return is(p.name) || is(torch_name(graph.model, p.name));
}

bool matches_any(const NamePatterns& patterns, const Graph& graph, const Param& p) {
    return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches(pattern, graph, p); });
}

void check_patterns(const NamePatterns& patterns, const Graph& graph, const std::string& option) {
    for (const std::string& pattern : patterns) {
        if (std::ranges::any_of(graph.params, [&](const Param& p) { return matches(pattern, graph, p); })) continue;
        std::vector<std::string> parts;  // first parts of the names, each once
        for (const Param& p : graph.params)
            if (const std::string part = p.name.substr(0, p.name.find('.')); std::ranges::count(parts, part) == 0)
                parts.push_back(part);
        fail(Exit::usage, option + " " + printable(shortened(pattern)) + ": matches no parameter of " + graph.model +
                              "; their names begin with " + joined(parts, ", ") + " (as in " +
                              graph.params.back().name + ")");
    }
}

std::map<std::string, double> factors_by_name(const std::vector<RateFactor>& factors, const Graph& graph) {
    std::map<std::string, double> by_name;
    for (const auto& [pattern, factor] : factors) {
        check_patterns({pattern}, graph, "--lr-factor");
        bool trained = false;
        for (const Param& p : graph.params) {
            if (!p.has_gradient() || !matches(pattern, graph, p)) continue;
            by_name[p.name] = factor;
            trained = true;
        }
        if (!trained)
            fail(Exit::usage, "--lr-factor " + printable(shortened(pattern)) + ": matches only parameters that are " +
                                  "not trained; leave it out");
    }
    return by_name;
}

Graph with_frozen(Graph graph, const NamePatterns& patterns, bool norms) {
    if (patterns.empty()) return graph;
    check_patterns(patterns, graph, "--freeze");
    const size_t before = graph.gradient_count();
    for (Param& p : graph.params) p.frozen = p.frozen || (p.trained && matches_any(patterns, graph, p));
    if (graph.gradient_count() == before)
        fail(Exit::usage, "--freeze " + joined(patterns, ",") +
                              ": matches no parameter that is trained; name weights, as in 'stage1.*'");
    if (graph.gradient_count() == 0)
        fail(Exit::usage,
             "--freeze " + joined(patterns, ",") + ": leaves no parameter of " + graph.model + " to train; name fewer");
    bool fixed = false;
    for (Op& op : graph.ops) {
        auto* const norm = std::get_if<BatchNorm>(&op);
        if (!norm || !norms) continue;
        norm->fixed = graph.params[norm->scale].frozen && graph.params[norm->bias].frozen;
        fixed = fixed || norm->fixed;
    }
    if (norms && !fixed)
        fail(Exit::usage, "--freeze-batchnorm: --freeze names no whole batch norm; name its scale and bias there");
    return graph;
}

}  // namespace convoy
