#include "accept/endurance.h"

#include <algorithm>

#include "base/clock.h"
#include "base/text.h"

namespace convoy {
namespace {

constexpr size_t columns = 4;           // numbers per sample in messages between ranks
constexpr int64_t most_deviations = 3;  // that are named; a long run may have thousands

std::vector<double> row_of(const std::vector<EnduranceSample>& samples) {
    std::vector<double> row;
    for (const EnduranceSample& s : samples) row.insert(row.end(), {s.at, s.steps_per_second, s.clock_hz, s.celsius});
    return row;
}

/// Returns the samples that one rank kept, from the rows of all ranks.
std::vector<EnduranceSample> samples_of(const std::vector<double>& rows, size_t rank, size_t count) {
    std::vector<EnduranceSample> samples;
    for (size_t i = 0; i < count; ++i) {
        const double* of = rows.data() + (rank * count + i) * columns;
        samples.push_back({of[0], of[1], of[2], of[3]});
    }
    return samples;
}

/// Returns how many samples a rank keeps, so that accept.json stays small on many ranks.
size_t most_samples(int ranks) { return std::clamp<size_t>(size_t(20000 / ranks), 16, 256); }

}  // namespace

void EnduranceCurve::add(const EnduranceSample& s) {
    if (added_++ % stride_ != 0) return;
    samples_.push_back(s);
    if (samples_.size() <= most_) return;
    std::vector<EnduranceSample> kept;
    for (size_t i = 0; i < samples_.size(); i += 2) kept.push_back(samples_[i]);
    samples_ = std::move(kept);
    stride_ *= 2;
}

LevelResult judge_endurance(const std::vector<RankEndurance>& ranks, int64_t steps, double seconds) {
    LevelResult r{.level = "endurance", .seconds = seconds};
    for (size_t i = 0; i < ranks.size(); ++i) {
        const RankEndurance& rank = ranks[i];
        if (!rank.deviations.empty())
            r.blamed.push_back(
                {rank.host, "rank " + std::to_string(i), "other bits than at first in " + rank.deviations, true});
        for (const EnduranceSample& s : rank.samples)
            for (const auto& [name, unit, value] : {std::tuple("speed", "steps/s", s.steps_per_second),
                                                    {"clock", "Hz", s.clock_hz},
                                                    {"temperature", "°C", s.celsius}})
                r.add({.name = name,
                       .unit = unit,
                       .value = value,
                       .host = rank.host,
                       .rank = int(i),
                       .at = s.at,
                       .at_unit = "s"});
    }
    r.add({.name = "steps", .unit = "1", .value = double(steps)});
    r.outcome = r.blamed.empty() ? Outcome::pass : Outcome::fail;
    r.figure = formatted("%lld steps on each rank in %.1f minutes", (long long)steps, seconds / 60);
    r.expected = "the same bits as in the first repetition";
    return r;
}

LevelResult endurance_level(Comm& world, const DeviceChoice& choice, Backend& device, const BitsCase& c,
                            double minutes) {
    const Clock::time_point began = Clock::now();
    const std::unique_ptr<Comm> self = world.split(world.rank());
    const StepHashes first = train_bits(*self, choice, c);
    EnduranceCurve curve(most_samples(world.size()));
    int64_t steps = 0, repetitions = 0, deviating = 0;
    std::string deviations;
    do {
        const Clock::time_point start = Clock::now();
        const StepHashes again = train_bits(*self, choice, c);
        const double seconds = std::max(seconds_since(start), 1e-9);
        steps += int64_t(again.size());
        const SystemSample now = device.sample();
        curve.add({seconds_since(began), double(again.size()) / seconds, now.clock_hz, now.temperature_celsius});
        ++repetitions;
        if (const size_t step = first_difference(again, first); step && ++deviating <= most_deviations)
            deviations += formatted("%s step %zu after %.0f s", deviating > 1 ? "," : "", step, seconds_since(began));
    } while (world.max(int64_t(seconds_since(began) < 60 * minutes)) > 0);
    if (deviating > 0)
        deviations = formatted("%lld of %lld repetitions:", (long long)deviating, (long long)repetitions) + deviations +
                     (deviating > most_deviations ? ", …" : "");
    double seconds = seconds_since(began);
    world.broadcast(&seconds, sizeof seconds);
    const std::vector<std::string> hosts = world.gather_all(world.host()), all = world.gather_all(deviations);
    const std::vector<double> rows = world.gather_all(row_of(curve.samples()));
    std::vector<RankEndurance> ranks;
    for (size_t i = 0; i < hosts.size(); ++i)
        ranks.push_back({hosts[i], all[i], samples_of(rows, i, curve.samples().size())});
    return judge_endurance(ranks, steps, seconds);
}

}  // namespace convoy
