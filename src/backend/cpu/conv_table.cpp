#include <algorithm>
#include <cstdio>

#include "backend/cpu/conv_algorithms.h"
#include "backend/cpu_queries.h"

namespace convoy {
namespace {

std::string format(const std::string& first_op, const std::string& uses, const std::string& convolution,
                   const std::string& algorithms) {
    char line[512];
    std::snprintf(line, sizeof line, "%-26s %4s  %-72s %s\n", first_op.c_str(), uses.c_str(), convolution.c_str(),
                  algorithms.c_str());
    return line;
}

/// Formats the chosen algorithm and the measured time of each.
std::string algorithms_of(ConvBy taken, const cpu::ConvTimes& times) {
    std::string text = cpu::name_of(taken);
    char number[64];
    for (const auto& [by, seconds] : times) {
        std::snprintf(number, sizeof number, "%s %s %.2f ms", by == times.begin()->first ? ":" : ",", cpu::name_of(by),
                      1e3 * seconds);
        text += number;
    }
    return times.empty() ? text + ": not measured" : text;
}

}  // namespace

std::string conv_table(const Graph& graph, const BackendOptions& options, Comm& comm) {
    const std::unique_ptr<Backend> backend = make_cpu_backend(options, comm);
    const GradientFlow gradients = gradient_flow(graph);
    const ProgramShape program{graph, 1, true, gradients};
    backend->tune(program);
    const auto algorithms = std::dynamic_pointer_cast<const cpu::CpuAlgorithms>(backend->select(program));
    const cpu::TunedConvs tuned = cpu::parse_tuned_convs(backend->tuning());
    const std::vector<cpu::ConvUse> uses = cpu::uses_of(program, backend->facts().threads);
    std::string text = format("first op", "uses", "convolution", "algorithm: times of all that apply");
    std::vector<std::string> told;
    for (const cpu::ConvUse& use : uses) {
        const std::string key = use.spec.key();
        if (std::find(told.begin(), told.end(), key) != told.end()) continue;
        told.push_back(key);
        const auto count = std::count_if(uses.begin(), uses.end(), [&](const auto& u) { return u.spec.key() == key; });
        const std::string weight = graph.params[use.spec.op.weight].name;
        text += format(weight.substr(0, weight.rfind('.')), std::to_string(count), key,
                       algorithms_of(algorithms->of(use), tuned.at(key)));
    }
    return backend->facts().device + "\n" + text;
}

}  // namespace convoy
