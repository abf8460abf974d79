// Selects how the ops of a program run. Ranks agree on measured times, and the user's tuning file
// and checkpoints keep them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <sstream>

#include "backend/cpu/conv_trial.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/tuning_file.h"
#include "comm/comm.h"

namespace convoy::cpu {
namespace {

/// Seconds for all measurements of a training, unless --tuning is given.
constexpr double usual_patience = 5;

/// Returns the entries of `all` for the `wanted` convolutions. Leaves out entries whose times lack
/// a candidate. Also leaves out entries without times if `again` is set and there are several
/// candidates.
TunedConvs known_of(const TunedConvs& all, const std::vector<ConvSpec>& wanted, const Capabilities& has, bool again) {
    TunedConvs known;
    for (const ConvSpec& s : wanted)
        if (const auto c = all.find(s.key()); c != all.end()) {
            const auto timed = [&](ConvBy by) { return c->second.contains(by); };
            const std::vector<ConvBy> able = candidates(s, has);
            const bool untimed = c->second.empty() && (!again || able.size() == 1);
            if (untimed || std::all_of(able.begin(), able.end(), timed)) known.insert(*c);
        }
    return known;
}

/// Warns if some convolutions could not be timed, because later runs then use the fixed order for
/// them too.
void warn_of_untimed(const std::vector<ConvSpec>& specs, const TunedConvs& measured, const Capabilities& has) {
    const auto untimed = std::ranges::count_if(
        specs, [&](const ConvSpec& s) { return measured.at(s.key()).empty() && candidates(s, has).size() > 1; });
    if (untimed > 0)
        std::fprintf(
            stderr,
            "warning: %d of %zu convolutions were not timed, because time (--tuning) or memory was short: they "
            "may run slower, now and in later runs; --tuning 60s times them once\n",
            int(untimed), specs.size());
}

}  // namespace

std::vector<ConvSpec> CpuBackend::unknown(const ProgramShape& o) const {
    std::vector<ConvSpec> unknown;
    std::set<std::string> seen;
    for (const ConvUse& use : uses_of(o, conv_threads()))
        if (!tuned_.contains(use.spec.key()) && seen.insert(use.spec.key()).second) unknown.push_back(use.spec);
    return unknown;
}

TunedConvs CpuBackend::measure(const std::vector<ConvSpec>& specs) {
    const Doing doing(comm_.activity(), "timing convolutions");
    const double patience = std::isinf(options_.tune_seconds) ? usual_patience : options_.tune_seconds;
    ConvTrial trial(engine_, stream_, *budget_);
    const double begin = now();
    TunedConvs measured;
    const double flops = trial_flops(specs.size(), conv_threads());
    for (const ConvSpec& s : specs)
        measured[s.key()] = now() - begin < patience ? trial.measure(s, has_, flops) : ConvTimes{};
    return measured;
}

// The first rank with a kind of processor reads and writes its file, under a lock. All ranks
// measure at the same time, because later they compute at the same time. The first rank's times
// count.
void CpuBackend::tune(const ProgramShape& program) {
    if (options_.dry_run || options_.conv_by != ConvBy::measured || options_.tune_seconds <= 0) return;
    std::vector<ConvSpec> wanted = unknown(program);
    if (comm_.max(int64_t(wanted.size())) == 0) return;
    const std::vector<std::string> kinds = comm_.gather_all(facts_.kind);
    const auto first = size_t(std::find(kinds.begin(), kinds.end(), facts_.kind) - kinds.begin());
    std::optional<TuningFile> file;
    if (first == size_t(comm_.rank())) file.emplace(facts_.kind);
    bool usable = file && file->usable(), locked = false;
    // Another process that measures holds the lock for seconds; after a minute it seems suspended.
    constexpr int most_seconds = 60;
    int seconds = 0;
    do {
        if (usable && !locked) locked = file->lock();
    } while (comm_.max(usable && !locked ? 1 : 0) > 0 && ++seconds < most_seconds);
    if (usable && !locked) {
        std::fprintf(stderr,
                     "warning: another process has held the file of measured times in ~/.cache/convoy for a minute: "
                     "convolutions are not measured; see who holds it with lslocks\n");
        usable = false;
    }

    const std::string none_kept = "none", text = comm_.gather_all(usable ? file->read() : none_kept)[first];
    const TunedConvs all = parse_tuned_convs(text),
                     known = known_of(all, wanted, has_, std::isfinite(options_.tune_seconds));
    std::erase_if(wanted, [&](const ConvSpec& s) { return known.contains(s.key()); });
    // Measure only if the file can keep the times, because otherwise two runs would not compute the
    // same bits.
    TunedConvs mine = text == none_kept ? TunedConvs{} : measure(wanted);
    if (usable) warn_of_untimed(wanted, mine, has_);
    const std::string agreed = comm_.gather_all(text_of(mine))[first];
    std::erase_if(mine, [&](const auto& m) { return m.second.empty() && all.contains(m.first); });
    if (usable) file->append(text_of(mine));
    tuned_.insert(known.begin(), known.end());
    tuned_.merge(parse_tuned_convs(agreed));
}

std::shared_ptr<const Algorithms> CpuBackend::select(const ProgramShape& o) {
    auto algorithms = std::make_shared<CpuAlgorithms>();
    for (const Op& op : o.graph.ops) {
        OpMemory memory;
        if (const auto* bn = std::get_if<BatchNorm>(&op))  // mean and 1 / deviation
            memory.saved = 2 * sizeof(float) * size_t(o.graph.values[bn->x].c);
        if (const auto* pool = std::get_if<Pool>(&op)) memory.saved = pool_workspace(*pool, o.graph, o.batch);
        algorithms->memory.push_back(memory);
    }
    for (const ConvSpec& s : unknown(o)) tuned_[s.key()];  // from now on, it counts as chosen without a measurement
    algorithms->convs = select_convs(o, conv_threads(), has_, options_.conv_by, tuned_);
    return algorithms;
}

std::string CpuBackend::tuning() const { return tuned_.empty() ? "" : "[" + facts_.kind + "]\n" + text_of(tuned_); }

void CpuBackend::restore_tuning(const std::string& text) {
    std::istringstream lines(text);
    std::string mine;
    bool of_mine = false;
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("["))
            of_mine = line == "[" + facts_.kind + "]";
        else if (of_mine)
            mine += line + "\n";
    tuned_ = parse_tuned_convs(mine);
}

}  // namespace convoy::cpu
