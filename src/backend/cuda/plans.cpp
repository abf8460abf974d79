#include "backend/cuda/plans.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backend/cuda/captured_tape.h"
#include "backend/cuda/kernel_trial.h"
#include "backend/cuda/random_memory.h"
#include "base/clock.h"
#include "base/durable.h"

namespace convoy::cuda {
namespace {

// Heuristics order candidates by what cuDNN expects of them: the best is hardly ever further down.
// Some are compiled for the device, up to two seconds each.
constexpr int most_timed = 6, most_failed = 12;
constexpr double patience = 2, patience_without_any = 30;  // seconds; the longer where there is nothing else
constexpr int timed_runs = 5;
constexpr size_t timed_together = 4, most_turns = 16;
constexpr const char* none_in_time = "none-in-time";  // in place of an engine's name: patience was over
constexpr double save_every = 5;                      // seconds: who is stopped while choosing goes on from there

bool has_engine(const PlanChoice& c) { return !c.engine.empty() && c.engine != none_in_time; }
float time_of(const PlanChoice& c) { return has_engine(c) || c.microseconds == untimed ? c.microseconds : missing; }

}  // namespace

PlanChoices parse_choices(const std::string& text) {
    PlanChoices choices;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t equals = line.find(" = ");
        if (equals == std::string::npos) continue;
        std::istringstream rest(line.substr(equals + 3));
        PlanChoice c;
        if (rest >> c.microseconds) {
            rest >> c.engine;
            choices[line.substr(0, equals)] = c;
        }
    }
    return choices;
}

std::string text_of(const PlanChoices& choices) {
    std::ostringstream out;
    out.precision(9);  // a warm start compares what a cold one did
    for (const auto& [key, c] : choices) out << key << " = " << c.microseconds << ' ' << c.engine << '\n';
    return out.str();
}

std::string cache_path(const std::string& chip, const std::string& cudnn_version) {
    const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
    if (!(cache && *cache) && !(home && *home)) return "";
    std::string name = chip;
    std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '-');
    return (cache && *cache ? std::string(cache) : std::string(home) + "/.cache") + "/convoy/plans-4-" + name +
           "-cudnn-" + cudnn_version + ".txt";
}

std::vector<Slot> operands_of(const PlanSpec& s) {
    using enum Slot;
    std::vector<Slot> slots;
    switch (s.kind) {
        case PlanSpec::conv:
            slots = {x, weight, y};
            if (s.statistics) slots.insert(slots.end(), {sum, squares});
            break;
        case PlanSpec::conv_data_gradient:
            slots = {dy, weight, dx};
            if (s.statistics)
                slots.insert(slots.end(), {x, scale, bias, mean, invstd, dscale, dbias, dy_factor, x_factor, offset});
            break;
        case PlanSpec::conv_weight_gradient: slots = {dy, x, dweight}; break;
        case PlanSpec::norm:
            slots = {x, scale, bias, running_mean, running_var, mean, invstd, next_mean, next_var, y};
            break;
        case PlanSpec::norm_gradient: slots = {dy, x, scale, mean, invstd, dx, dscale, dbias}; break;
    }
    if (s.normalise) slots.insert(slots.end(), {scale, bias});
    if (s.add) slots.push_back(residual);
    if (s.kind == PlanSpec::norm_gradient && s.relu) slots.push_back(bias);
    return slots;
}

size_t operand_bytes(const PlanSpec& s, Slot slot) {
    switch (slot) {
        case Slot::x:
        case Slot::dx:
        case Slot::residual: return s.x.count() * size_of(s.type);
        case Slot::y:
        case Slot::dy: return s.y.count() * size_of(s.type);
        case Slot::weight:
        case Slot::dweight: return size_t(s.y.c) * s.kernel * s.kernel * s.x.c * size_of(s.type);
        case Slot::sum:
        case Slot::squares: return size_t(s.y.c) * sizeof(float);
        default: return size_t(s.x.c) * (s.normalise ? size_of(s.type) : sizeof(float));
    }
}

Plans::Plans(const Cudnn& cudnn, cudaStream_t stream, Options options)
    : cudnn_(cudnn), stream_(stream), options_(std::move(options)) {
    std::ifstream file(options_.path);
    std::ostringstream text;
    if (file) text << file.rdbuf();
    cached_ = parse_choices(text.str());
}

void Plans::take(const PlanChoices& choices, bool binding) {
    for (const auto& [key, choice] : choices) {
        given_[key] = choice;
        if (!binding) continue;
        binding_.insert(key);
        // Only what was measured is kept: there may be no engine because memory did not suffice.
        if (has_engine(choice) && choice.microseconds != untimed && cached_.emplace(key, choice).second)
            changed_ = true;
    }
}

const PlanChoice* Plans::known(const std::string& key) const {
    for (const PlanChoices* from : {&given_, &cached_})
        if (const auto at = from->find(key); at != from->end()) return &at->second;
    return nullptr;
}

const Plan* Plans::find(const PlanSpec& spec) {
    const std::string key = spec.key();
    auto at = plans_.find(key);
    if (at == plans_.end()) at = plans_.emplace(key, choose(spec, std::make_shared<CudnnGraph>(cudnn_, spec))).first;
    const Plan& plan = at->second;
    answer(key, plan.graph ? PlanChoice{plan.graph->name(plan.candidate), plan.microseconds} : PlanChoice{});
    return plan.graph ? &plan : nullptr;
}

/// The plan that is known already, or that there is none; nothing if it has to be chosen.
std::optional<Plan> Plans::as_known(const PlanSpec& spec, const std::shared_ptr<CudnnGraph>& graph) {
    const std::string key = spec.key();
    const PlanChoice* choice = known(key);
    if (!choice) return std::nullopt;
    if (time_of(*choice) == missing) return Plan{};
    for (int i = 0; i < graph->candidates(); ++i)
        if (graph->name(i) == choice->engine && build(*graph, i)) return Plan{graph, i, choice->microseconds};
    if (!has_engine(*choice) || !given_.contains(key)) return std::nullopt;
    if (binding_.contains(key))
        fail(Exit::usage, "cuDNN cannot build engine " + choice->engine + " of '" + key +
                              "', which another rank with the same kind of GPU has chosen; compare the drivers and "
                              "CUDA libraries of the hosts (convoy info)");
    ++unmet_;
    given_.erase(key);
    return as_known(spec, graph);
}

Plan Plans::choose(const PlanSpec& spec, std::shared_ptr<CudnnGraph> graph) {
    if (std::optional<Plan> known = as_known(spec, graph)) return *known;
    const std::string key = spec.key();
    Plan best{nullptr, 0, untimed};
    int tried = 0, timed = 0, failed = 0;
    const double start = worked();
    const bool optional = spec.is_norm() || spec.add || spec.statistics || spec.normalise;
    const auto enough = [&] {
        return (best.graph && !in_time()) || timed == most_timed || (best.graph && failed >= most_failed) ||
               worked() - start > (best.graph || optional ? patience : patience_without_any);
    };
    for (; tried < graph->candidates() && !enough(); ++tried) {
        const std::optional<float> t = build(*graph, tried) ? time_candidate(*graph, tried, spec) : std::nullopt;
        ++(t ? timed : failed);
        if (t && (!best.graph || *t < best.microseconds)) best = {graph, tried, *t};
    }
    spent_ += worked() - start;
    // Not of what a training cannot do without: that is tried again.
    const bool gave_up = optional && !best.graph && tried < graph->candidates();
    if (gave_up && in_time()) remember(key, {none_in_time, 0});
    // What failed for want of memory or of a library may do another time: only what was measured is
    // remembered, and what has no engine.
    if (graph->candidates() > 0 && best.microseconds == untimed) return best;
    remember(key, best.graph ? PlanChoice{graph->name(best.candidate), best.microseconds} : PlanChoice{});
    return best;
}

bool Plans::build(CudnnGraph& graph, int candidate) {
    waited_ += options_.alive();
    std::string why;
    if (!graph.build(candidate, why)) return false;
    ++built_;
    return true;
}

void Plans::remember(const std::string& key, const PlanChoice& choice) {
    cached_[key] = choice;
    changed_ = true;
    if (seconds_since(saved_) > save_every) save();
}

float Plans::answer(const std::string& key, const PlanChoice& choice) {
    chosen_[key] = choice;
    return time_of(choice);
}

float Plans::time(const PlanSpec& spec) {
    const std::string key = spec.key();
    const bool built = plans_.contains(key);
    if (const PlanChoice* choice = known(key); choice && !built) return answer(key, *choice);
    if (!in_time() && !built) return answer(key, {"", untimed});
    const Plan* found = find(spec);
    return found ? found->microseconds : missing;
}

bool Plans::build(const std::vector<PlanSpec>& specs) {
    bool as_timed = true;
    for (const PlanSpec& spec : specs) {
        const float before = time(spec);
        find(spec);
        as_timed = as_timed && time(spec) == before;
    }
    return as_timed;
}

float Plans::time(const KernelSpec& spec) {
    const std::string key = spec.key();
    if (const PlanChoice* choice = known(key)) return answer(key, *choice);
    if (!in_time()) return answer(key, {"", untimed});
    const double start = worked();
    try {
        std::vector<std::unique_ptr<KernelTrial>> trials;
        std::vector<std::function<void()>> works;
        do {
            trials.push_back(std::make_unique<KernelTrial>(spec, stream_));
            works.emplace_back([&trial = *trials.back()] { trial.run(); });
        } while (trials.size() < turns(trials[0]->bytes(), options_.cache));
        const float t = measure(works);
        spent_ += worked() - start;
        remember(key, {"kernel", t});
        return answer(key, {"kernel", t});
    } catch (const std::bad_alloc&) {
        return answer(key, {"", untimed});  // no room to try it
    }
}

std::optional<float> Plans::time_candidate(const CudnnGraph& graph, int candidate, const PlanSpec& spec) try {
    std::vector<DeviceMemory> memory;
    const DeviceMemory workspace(std::max<size_t>(graph.workspace(candidate), 1));
    std::vector<std::function<void()>> works;
    size_t bytes = 0;
    for (Slot slot : operands_of(spec)) bytes += operand_bytes(spec, slot);
    do {
        std::vector<std::pair<Slot, void*>> operands;
        for (Slot slot : operands_of(spec)) {
            memory.push_back(random_memory(operand_bytes(spec, slot), stream_));
            operands.emplace_back(slot, memory.back().get());
        }
        works.emplace_back([&, operands] { graph.run(candidate, operands, workspace.get()); });
    } while (in_time() && works.size() < turns(bytes, options_.cache));
    if (in_time()) return measure(works);
    works[0]();  // some are built and then cannot run
    check(cudaStreamSynchronize(stream_), "trying a plan");
    return untimed;
} catch (const std::bad_alloc&) {
    return untimed;  // no room to try it: heuristics decide
} catch (const std::runtime_error&) {
    // If the device itself has failed, this says so.
    cudaGetLastError();
    check(cudaStreamSynchronize(stream_), "timing a plan");
    return std::nullopt;
}

size_t turns(size_t bytes, size_t cache) { return std::min(2 * cache / std::max<size_t>(bytes, 1) + 1, most_turns); }

float Plans::measure(const std::vector<std::function<void()>>& works) {
    waited_ += options_.alive();
    works[0]();  // loads the kernels
    // As steps run: some at a time from a graph, so that the host has no part in it.
    const size_t runs = std::max(timed_together, works.size());
    const ExecutableGraph together = capture(stream_, [&] {
        for (size_t i = 0; i < runs; ++i) works[i % works.size()]();
    });
    const Event start(true), stop(true);
    float least = untimed;
    for (int run = -1; run < timed_runs; ++run) {
        check(cudaEventRecord(start.get(), stream_), "timing a plan");
        check(cudaGraphLaunch(together.get(), stream_), "timing a plan");
        check(cudaEventRecord(stop.get(), stream_), "timing a plan");
        check(cudaEventSynchronize(stop.get()), "timing a plan");
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()), "timing a plan");
        if (run >= 0) least = std::min(least, 1000 * milliseconds / float(runs));
    }
    return least;
}

void Plans::save() {
    if (!changed_ || !saves_ || options_.path.empty()) return;
    changed_ = false;
    saved_ = Clock::now();
    const std::string text = text_of(cached_);
    try {
        std::filesystem::create_directories(std::filesystem::path(options_.path).parent_path());
        replace_file(options_.path, {text.begin(), text.end()});
    } catch (const std::exception&) {
        // The next run measures again.
    }
}

}  // namespace convoy::cuda
