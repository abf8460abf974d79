#include "backend/cuda/plans.h"

#include <algorithm>
#include <filesystem>

#include "backend/cuda/kernel_trial.h"
#include "backend/cuda/random_memory.h"
#include "backend/cuda/timing.h"
#include "base/cache_folder.h"
#include "base/clock.h"
#include "base/durable.h"

namespace convoy::cuda {
namespace {

constexpr double save_every = 5;   // seconds, so that a run stopped while choosing resumes there
constexpr double most_wait = 120;  // seconds; longer waits for a spec's plans are no progress for the watchdog

}  // namespace

Plans::Plans(const Cudnn& cudnn, cudaStream_t stream, Options options)
    : cudnn_(cudnn), stream_(stream), options_(std::move(options)), trials_(options_.path), builder_(options_.threads) {
    check(cudaGetDevice(&device_), "asking for the device");
    cached_ = parse_tuned_plans(text_of_cache(options_.path));
}

void Plans::take(const TunedPlans& plans, bool binding) {
    for (const auto& [key, tuned] : plans) {
        given_[key] = tuned;
        if (!binding) continue;
        binding_.insert(key);
        // Cache only measured plans: another rank may lack an engine because memory ran out.
        if (tuned.has_engine() && tuned.microseconds != untimed && cached_.emplace(key, tuned).second) changed_ = true;
    }
}

const TunedPlan* Plans::known(const std::string& key) const {
    for (const TunedPlans* from : {&given_, &cached_})
        if (const auto at = from->find(key); at != from->end()) return &at->second;
    return nullptr;
}

void Plans::expect(const std::vector<PlanSpec>& specs) {
    for (const PlanSpec& spec : specs)
        if (in_time() && !known(spec.key())) build_ahead(spec);
}

void Plans::build_ahead(const PlanSpec& spec) {
    const std::string key = spec.key();
    const TunedPlan* tuned = known(key);
    if (plans_.contains(key) || (tuned && tuned->time() == missing)) return;
    const std::string engine = tuned && tuned->has_engine() ? tuned->engine : "";
    const Family& family = families_[spec.family()];
    const auto work = [this, spec, engine, hurried = !in_time(), &family](const std::stop_token& stop) {
        check(cudaSetDevice(device_), "choosing the device");
        const Cudnn* handle = family.by_handle ? &handle_of_thread() : nullptr;
        BuiltGraph built = build_candidates(cudnn_, spec, engine, hurried, stop, handle);
        for (const auto& [candidate, attempt] : built.attempts) built_ += attempt.built;
        return built;
    };
    builder_.add(key, spec.family(), work);
}

const Cudnn& Plans::handle_of_thread() {
    const std::lock_guard lock(handles_mutex_);
    const auto at = handles_.find(std::this_thread::get_id());
    return at != handles_.end() ? at->second : handles_.emplace(std::this_thread::get_id(), stream_).first->second;
}

std::optional<BuiltGraph> Plans::built_ahead(const std::string& key) {
    const auto start = Clock::now();
    return builder_.take(key, [&] {
        if (seconds_since(start) < most_wait) waited_ += options_.alive();
    });
}

std::optional<float> Plans::known_time(const std::string& key) const {
    const TunedPlan* tuned = known(key);
    return tuned ? std::optional(tuned->time()) : std::nullopt;
}

const Plan* Plans::find(const PlanSpec& spec) {
    const std::string key = spec.key();
    auto at = plans_.find(key);
    if (at == plans_.end()) at = plans_.emplace(key, choose(spec)).first;
    const Plan& plan = at->second;
    answer(key, plan.graph ? TunedPlan{plan.graph->name(plan.candidate), plan.microseconds} : TunedPlan{});
    return plan.graph ? &plan : nullptr;
}

/// Returns the known plan of a spec; an empty plan if cuDNN is known to have no engine. Nullopt if
/// the plan must be chosen.
std::optional<Plan> Plans::as_known(const PlanSpec& spec, const BuiltGraph& from) {
    const std::string key = spec.key();
    const TunedPlan* tuned = known(key);
    if (!tuned) return std::nullopt;
    if (tuned->time() == missing) return Plan{};
    for (int i = 0; i < from.graph->candidates(); ++i)
        if (from.graph->name(i) == tuned->engine && build(from, i).built)
            return Plan{from.graph, i, tuned->microseconds};
    if (!tuned->has_engine() || !given_.contains(key)) return std::nullopt;
    if (binding_.contains(key))
        fail(Exit::usage, "cuDNN cannot build engine " + tuned->engine + " of '" + key +
                              "', which another rank with the same kind of GPU has chosen; compare the drivers and "
                              "CUDA libraries of the hosts (convoy info)");
    ++unmet_;
    given_.erase(key);
    return as_known(spec, from);
}

/// Returns true if the plans that another thread built ahead run with this thread's handle. Tries
/// this until a plan of the family has run.
bool Plans::serves(const BuiltGraph& ahead, const PlanSpec& spec) {
    if (ahead.graph->candidates() == 0) return false;  // it may have candidates with the handle
    Family& family = families_[spec.family()];
    bool any = false;
    for (const auto& [candidate, attempt] : ahead.attempts) {
        any = any || attempt.built;
        family.runs = family.runs || (attempt.built && time_candidate(*ahead.graph, candidate, spec, false));
    }
    return family.runs || !any;
}

/// Builds a plan again with this thread's handle, after another thread's plan did not run. If it
/// runs now, the threads also build its family with handles from now on.
BuiltGraph Plans::build_with_handle(const BuiltGraph& ahead, const PlanSpec& spec) {
    BuiltGraph here{std::make_shared<CudnnGraph>(cudnn_, spec)};
    bool runs = false;
    for (const auto& [candidate, attempt] : ahead.attempts)
        for (int i = 0; attempt.built && !runs && i < here.graph->candidates(); ++i) {
            if (here.graph->name(i) != ahead.graph->name(candidate)) continue;
            const auto start = Clock::now();
            const bool built = build(here, i).built;
            here.attempts[i] = {built, seconds_since(start)};
            runs = built && time_candidate(*here.graph, i, spec, false);
        }
    if (runs && !families_[spec.family()].by_handle.exchange(true)) builder_.repeat(spec.family());
    return here;
}

std::set<std::string> Plans::notes() const {
    std::set<std::string> all = trials_.notes();
    std::string families;
    for (const auto& [name, family] : families_)
        if (family.by_handle) families += (families.empty() ? "" : ", ") + name;
    if (!families.empty())
        all.insert("cuDNN's plans run here only if built with a handle; threads build these with handles: " + families);
    return all;
}

Plan Plans::choose(const PlanSpec& spec) {
    const std::string key = spec.key();
    const double start = worked();
    std::optional<BuiltGraph> graph = built_ahead(key);
    if (!graph)
        graph = BuiltGraph{std::make_shared<CudnnGraph>(cudnn_, spec)};
    else if (!serves(*graph, spec))
        graph = build_with_handle(*graph, spec);
    if (std::optional<Plan> known = as_known(spec, *graph)) return *known;
    Search search(spec, !in_time());
    const Plan best = fastest(spec, *graph, search);
    spent_ += worked() - start;
    // A needed spec is not recorded as given up, so that the next run searches again.
    const bool gave_up = !search.needed && !best.graph && search.tried() < graph->graph->candidates();
    if (gave_up && in_time()) remember(key, {none_in_time, 0});
    // Candidates that failed for lack of memory or of a library may work another time. So remember
    // only measured plans, and specs without candidates.
    if (graph->graph->candidates() > 0 && best.microseconds == untimed) return best;
    remember(key, best.graph ? TunedPlan{best.graph->name(best.candidate), best.microseconds} : TunedPlan{});
    return best;
}

Plan Plans::fastest(const PlanSpec& spec, const BuiltGraph& from, Search& search) {
    Plan best{nullptr, 0, untimed};
    const double start = worked();
    double elsewhere = 0;  // seconds
    while (search.tried() < from.graph->candidates() && !search.enough()) {
        const int candidate = search.tried();
        const BuiltGraph::Attempt attempt = build(from, candidate);
        const std::optional<float> t =
            attempt.built ? time_candidate(*from.graph, candidate, spec, in_time()) : std::nullopt;
        if (t && (!best.graph || *t < best.microseconds)) best = {from.graph, candidate, *t};
        elsewhere += attempt.seconds;
        search.add(t.has_value());
        search.seconds = worked() - start + elsewhere;
    }
    return best;
}

BuiltGraph::Attempt Plans::build(const BuiltGraph& from, int candidate) {
    waited_ += options_.alive();
    if (const auto done = from.attempts.find(candidate); done != from.attempts.end()) return done->second;
    std::string why;
    const bool built = from.graph->build(candidate, why);
    built_ += built;
    return {built, 0};
}

void Plans::remember(const std::string& key, const TunedPlan& tuned) {
    cached_[key] = tuned;
    changed_ = true;
    if (seconds_since(saved_) > save_every) save();
}

float Plans::answer(const std::string& key, const TunedPlan& tuned) {
    chosen_[key] = tuned;
    return tuned.time();
}

float Plans::time(const PlanSpec& spec) {
    const std::string key = spec.key();
    const bool built = plans_.contains(key);
    if (const TunedPlan* tuned = known(key); tuned && !built) return answer(key, *tuned);
    if (!in_time() && !built) return answer(key, {"", untimed});
    const Plan* found = find(spec);
    return found ? found->microseconds : missing;
}

bool Plans::build(const std::vector<PlanSpec>& specs) {
    builder_.drop();
    for (const PlanSpec& spec : specs) build_ahead(spec);
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
    if (const TunedPlan* tuned = known(key)) return answer(key, *tuned);
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
        return answer(key, {"", untimed});  // not enough memory to try it
    }
}

std::optional<float> Plans::time_candidate(const CudnnGraph& graph, int candidate, const PlanSpec& spec, bool timed) {
    const std::string key = spec.key(), engine = graph.name(candidate);
    if (trials_.ended_one(key, engine)) return std::nullopt;
    std::optional<float> time;
    trials_.begin(key, engine);
    try {
        time = run_candidate(graph, candidate, spec, timed);
    } catch (const std::bad_alloc&) {
        time = untimed;  // not enough memory to try it, so heuristics decide
    } catch (const std::runtime_error&) {
        // If the device itself has failed, this throws, and the trial stays recorded as not ended.
        cudaGetLastError();
        check(cudaStreamSynchronize(stream_), ("timing cuDNN's engine " + engine + " for '" + key + "'").c_str());
    }
    trials_.end();
    return time;
}

float Plans::run_candidate(const CudnnGraph& graph, int candidate, const PlanSpec& spec, bool timed) {
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
        works.emplace_back([&, operands] { graph.run(candidate, operands, workspace.get(), stream_); });
    } while (timed && works.size() < turns(bytes, options_.cache));
    if (timed) return measure(works);
    works[0]();  // some candidates can be built but not run
    check(cudaStreamSynchronize(stream_), "trying a plan");
    return untimed;
}

float Plans::measure(const std::vector<std::function<void()>>& works) {
    waited_ += options_.alive();
    return microseconds_of(works, stream_);
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
        // ignored: the next run measures again
    }
}

}  // namespace convoy::cuda
