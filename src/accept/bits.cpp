#include "accept/bits.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "bench/made_up.h"
#include "model/models.h"
#include "model/precision.h"
#include "train/trainer.h"

namespace convoy {
namespace {

/// FNV-1a over words of four bytes. Two inputs that differ in exactly one word never have the same
/// hash, because each word changes the state by a bijection.
class Hash {
public:
    void add(const void* data, size_t bytes) {
        const auto* from = static_cast<const char*>(data);
        for (size_t at = 0; at + sizeof(uint32_t) <= bytes; at += sizeof(uint32_t)) {
            uint32_t word;
            std::memcpy(&word, from + at, sizeof word);
            state_ = (state_ ^ word) * 0x100000001b3u;
        }
    }
    void add(TensorMemory& memory, const Tensor& t) {
        host_.resize((t.bytes() + 3) / 4 * 4);
        memory.download(host_.data(), t.data, t.bytes());
        add(host_.data(), host_.size());
    }
    std::string text() const { return formatted("%016llx", static_cast<unsigned long long>(state_)); }

private:
    uint64_t state_ = 0xcbf29ce484222325u;
    std::vector<char> host_;
};

/// Hashes the state after each step.
class Hasher final : public TrainListener {
public:
    Hasher(Backend& backend, const State& state) : backend_(backend), state_(state) {}
    bool at_once(int64_t) const override { return true; }
    void on_steps(int64_t, const std::vector<StepRecord>& records) override {
        require(records.size() == 1, "each step is reported when it has run");
        Hash hash;
        hash.add(&records[0].loss, sizeof records[0].loss);
        hash.add(backend_, state_.gradient_slice(stats_elements, state_.end_of_arena()));
        hash.add(backend_, state_.weights());
        steps.push_back(hash.text());
    }
    void on_epoch(const EpochSummary&) override {}
    void on_eval(int64_t, int64_t, const EvalResult&, bool) override {}
    void on_checkpoint(Checkpoint&&) override {}
    std::optional<Checkpoint> on_rollback(int64_t) override { return std::nullopt; }

    StepHashes steps;

private:
    Backend& backend_;
    const State& state_;
};

/// A training of a case: everything that a Trainer refers to.
class CaseTraining {
public:
    CaseTraining(Comm& comm, const DeviceChoice& choice, const BitsCase& c, int64_t steps)
        : backend_(backend_for(comm, choice, true, 1)),
          info_(made_up_split(c.model, {.size = {1, c.side, c.side, usual_images(c.model).c}, .classes = 10}, c.batch,
                              c.steps)),
          graph_(with_precision(fuse(build_model({.name = c.model,
                                                  .h = info_.height,
                                                  .w = info_.width,
                                                  .c = info_.channels,
                                                  .classes = int(info_.classes)})),
                                Precision::f32, backend_->facts().channel_multiple)),
          data_(comm, *backend_, info_, made_up_rows(info_, seed)) {
        TrainSetup s;
        s.optimizer.kind = OptimizerSpec::sgd;
        s.optimizer.momentum = 0.9f;
        s.schedule.base = 0.01;
        s.preprocessing = {info_.mean, info_.stddev};
        s.global_batch = c.batch;
        s.logical_ranks = c.batch;
        s.epochs = double(c.steps);
        s.max_steps = std::max<int64_t>(steps, 1);
        s.on_nan = OnNan::skip;
        s.log_interval = 1;  // reports each step as soon as it has run
        s.seed = seed;
        comm.together([&] { trainer_.emplace(comm, *backend_, graph_, data_, nullptr, s, nobody_); });
        trainer_->programs().prepare();
        comm.together([&] { trainer_->programs().build(); });
        trainer_->programs().initialise();
    }
    Trainer& trainer() { return *trainer_; }
    Backend& backend() { return *backend_; }

private:
    static constexpr uint64_t seed = 1;
    std::unique_ptr<Backend> backend_;
    SplitInfo info_;
    Graph graph_;
    DataSet data_;
    Requests nobody_;
    std::optional<Trainer> trainer_;
};

std::string joined_lines(const StepHashes& hashes) { return joined(hashes, "\n"); }

}  // namespace

size_t first_difference(const StepHashes& a, const StepHashes& b) {
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i)
        if (i >= a.size() || i >= b.size() || a[i] != b[i]) return i + 1;
    return 0;
}

std::string BitsCase::name() const {
    return model + formatted(" %dx%d, batch %lld, %lld steps", side, side, (long long)batch, (long long)steps);
}

std::vector<int> majority_of(const std::vector<RankBits>& ranks) {
    std::vector<int> majority(ranks.size(), -1);
    for (size_t i = 0; i < ranks.size(); ++i) {
        size_t of_kind = 0, most = 0;
        int best = -1;
        for (size_t j = 0; j < ranks.size(); ++j) {
            if (ranks[j].kind != ranks[i].kind) continue;
            ++of_kind;
            const auto same = size_t(std::ranges::count_if(ranks, [&](const RankBits& other) {
                return other.kind == ranks[j].kind && other.steps == ranks[j].steps;
            }));
            if (same > most) most = same, best = int(j);
        }
        if (2 * most > of_kind) majority[i] = best;
    }
    return majority;
}

/// Sets figure, expectation and outcome. `good` and `compared` count ranks, `kinds` their kinds.
static void conclude(LevelResult& r, size_t ranks, size_t good, size_t compared, size_t kinds, bool together) {
    r.add({.name = "devices", .unit = "1", .value = double(ranks)});
    r.add({.name = "right_devices", .unit = "1", .value = double(good)});
    r.figure = formatted("%zu of %zu devices have the bits of their kind", good, ranks);
    if (kinds > 1) r.figure += formatted(", of %zu kinds", kinds);
    if (compared < ranks) r.figure += formatted("; %zu were compared with nothing", ranks - compared);
    if (together && r.blamed.empty() && kinds == 1) r.figure += ", and all together";
    r.expected = "the same bits on devices of one kind";
    r.outcome = !r.blamed.empty()  ? Outcome::fail
                : compared == 0    ? Outcome::skip
                : compared < ranks ? Outcome::warn
                                   : Outcome::pass;
    if (r.outcome == Outcome::skip) {
        r.figure = formatted("%zu devices of %zu kinds, and no fingerprints of them are known", ranks, kinds);
        r.expected = "known fingerprints: --save-fingerprint FILE saves them on a machine that is right";
    }
}

LevelResult compare_bits(const BitsCase& c, const std::vector<RankBits>& alone, const std::vector<StepHashes>& together,
                         const Fingerprints& known) {
    LevelResult r{.level = "bits"};
    const std::vector<int> majority = majority_of(alone);
    std::set<std::string> kinds, undecided;
    size_t good = 0, compared = 0;
    for (size_t i = 0; i < alone.size(); ++i) {
        const RankBits& rank = alone[i];
        kinds.insert(rank.kind);
        const auto fingerprint = known.find({rank.kind, c.name()});
        const auto of_kind = std::ranges::count(alone, rank.kind, &RankBits::kind);
        if (fingerprint == known.end() && of_kind < 2) continue;  // nothing to compare with
        ++compared;
        const StepHashes* expected = fingerprint != known.end() ? &fingerprint->second
                                     : majority[i] >= 0         ? &alone[majority[i]].steps
                                                                : nullptr;
        if (!expected) {
            undecided.insert(rank.kind);
            continue;
        }
        const size_t step = first_difference(rank.steps, *expected);
        if (step == 0) {
            ++good;
            continue;
        }
        const bool repeats = rank.again.empty() || rank.again == rank.steps;
        r.blamed.push_back(
            {.host = rank.host,
             .device = rank.device,
             .reason = formatted("%s from step %zu of %s%s",
                                 fingerprint != known.end() ? "other bits than the fingerprint" : "wrong bits", step,
                                 c.name().c_str(), repeats ? "" : ", and others when it is repeated"),
             .drain = true});
    }
    for (const std::string& kind : undecided)
        for (const RankBits& rank : alone)
            if (rank.kind == kind)
                r.blamed.push_back({.host = rank.host,
                                    .device = rank.device,
                                    .reason = "devices of one kind have different bits, and no majority agrees"});
    for (size_t i = 0; i < together.size(); ++i) {
        if (!r.blamed.empty() || kinds.size() > 1) break;  // then all ranks together must differ, too
        if (const size_t step = first_difference(together[i], alone[i].steps))
            r.blamed.push_back({.host = alone[i].host,
                                .device = alone[i].device,
                                .reason = formatted("all ranks together have other bits from step %zu of %s than each "
                                                    "alone: network or reductions",
                                                    step, c.name().c_str())});
    }
    conclude(r, alone.size(), good, compared, kinds.size(), !together.empty());
    return r;
}

StepHashes train_bits(Comm& comm, const DeviceChoice& choice, const BitsCase& c) {
    CaseTraining training(comm, choice, c, c.steps);
    Hasher hasher(training.backend(), training.trainer().programs().state());
    try {
        training.trainer().run(hasher);
    } catch (const Error& error) {
        // After a flipped bit, all losses may be infinite or NaN. The hashes so far show its step.
        if (error.code != Exit::not_finite) throw;
    }
    return hasher.steps;
}

std::vector<OutputHash> outputs_of_step(Comm& comm, const DeviceChoice& choice, const BitsCase& c, int64_t step) {
    CaseTraining training(comm, choice, c, step - 1);
    TrainingPrograms& programs = training.trainer().programs();
    if (step > 1) {
        Hasher before(training.backend(), programs.state());
        training.trainer().run(before);
    }
    programs.begin(step - 1);
    programs.supply_batch(step - 1);
    std::vector<OutputHash> outputs;
    for (const Program& part : programs.program_of(step - 1).parts) {
        size_t at = 0, probe = 0;
        for (const Launch& launch : part.tape) {
            launch.run();
            ++at;
            for (; probe < part.probes.size() && part.probes[probe].after == at; ++probe) {
                training.backend().synchronize();
                Hash hash;
                hash.add(training.backend(), part.probes[probe].output);
                outputs.push_back({part.probes[probe].name, hash.text()});
            }
        }
    }
    return outputs;
}

namespace {

StepHashes lines_of(const std::string& text) { return split(text, '\n'); }

/// Adds to the details, for each wrong rank, the first operation whose output differs from the
/// majority's. Collective, because all ranks repeat the step.
void name_operations(Comm& world, Comm& self, const DeviceChoice& choice, const BitsCase& c,
                     const std::vector<RankBits>& alone, LevelResult& r) {
    const std::vector<int> majority = majority_of(alone);
    size_t step = 0;
    for (size_t i = 0; i < alone.size(); ++i)
        if (majority[i] >= 0)
            if (const size_t at = first_difference(alone[i].steps, alone[majority[i]].steps))
                step = step == 0 ? at : std::min(step, at);
    if (step == 0) return;
    std::vector<std::string> mine;
    for (const OutputHash& o : outputs_of_step(self, choice, c, int64_t(step))) mine.push_back(o.hash + o.name);
    const std::vector<std::string> all = world.gather_all(joined(mine, "\n"));
    for (size_t i = 0; i < alone.size(); ++i) {
        if (majority[i] < 0 || alone[i].steps == alone[majority[i]].steps) continue;
        const StepHashes own = lines_of(all[i]), sound = lines_of(all[majority[i]]);
        const size_t first = first_difference(own, sound);
        constexpr size_t digits = 16;
        const std::string what = first == 0 || first > own.size()
                                     ? "the step is right when it is repeated: the fault comes and goes"
                                     : "the first output that differs is that of " + own[first - 1].substr(digits);
        r.details.push_back(alone[i].host + ", " + alone[i].device + formatted(": step %zu: ", step) + what);
    }
}

}  // namespace

LevelResult bits_level(Comm& world, const DeviceChoice& choice, const std::vector<BitsCase>& cases,
                       const Fingerprints& known, Fingerprints* seen) {
    const Clock::time_point began = Clock::now();
    const std::unique_ptr<Comm> self = world.split(world.rank());
    LevelResult all{.level = "bits"};
    std::vector<LevelResult> outcomes;
    for (const BitsCase& c : cases) {
        const StepHashes mine = train_bits(*self, choice, c);
        const std::unique_ptr<Backend> backend = backend_for(*self, choice, true, 1);
        const std::vector<std::string> hosts = world.gather_all(world.host()),
                                       kinds = world.gather_all(backend->facts().kind),
                                       hashes = world.gather_all(joined_lines(mine));
        std::vector<RankBits> alone;
        for (size_t i = 0; i < hosts.size(); ++i)
            alone.push_back({hosts[i], "rank " + std::to_string(i), kinds[i], lines_of(hashes[i])});
        const auto wrong = [&] { return compare_bits(c, alone, {}, known).outcome == Outcome::fail; };
        if (wrong()) {
            const std::vector<std::string> again = world.gather_all(joined_lines(train_bits(*self, choice, c)));
            for (size_t i = 0; i < alone.size(); ++i) alone[i].again = lines_of(again[i]);
        }
        std::vector<StepHashes> together;
        if (world.size() > 1)
            for (const std::string& text : world.gather_all(joined_lines(train_bits(world, choice, c))))
                together.push_back(lines_of(text));
        LevelResult r = compare_bits(c, alone, together, known);
        if (r.outcome == Outcome::fail) name_operations(world, *self, choice, c, alone, r);
        if (seen && r.outcome != Outcome::fail)
            for (const RankBits& rank : alone) (*seen)[{rank.kind, c.name()}] = rank.steps;
        all.details.push_back(c.name() + ": " + r.figure);
        all.details.insert(all.details.end(), r.details.begin(), r.details.end());
        all.blamed.insert(all.blamed.end(), r.blamed.begin(), r.blamed.end());
        outcomes.push_back(r);
        all.figure = r.figure;
        all.figures = r.figures;
        all.expected = r.expected;
        if (r.outcome == Outcome::fail) break;  // no need for the larger cases
    }
    all.outcome = verdict_of(outcomes);
    if (all.outcome != Outcome::fail && std::ranges::count(outcomes, Outcome::skip, &LevelResult::outcome) > 0 &&
        all.outcome != Outcome::skip)
        all.figure = "some trainings were compared, others have no fingerprint: see the details";
    all.seconds = seconds_since(began);
    return all;
}

}  // namespace convoy
