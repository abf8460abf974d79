// Audits of a training whose ranks compute wrong at chosen places. Each test also runs on two and
// three ranks.
#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "tests/support/cluster.h"
#include "tests/support/test_comm.h"
#include "tests/support/training.h"

namespace convoy::test {
namespace {

/// A CPU that flips a bit in the gradient of the logits where a test wants it.
class FaultyBackend final : public cpu::CpuBackend {
public:
    explicit FaultyBackend(bool invariant = false) : CpuBackend({.threads = 1, .invariant = invariant}, test_comm()) {}
    void backward(const Op& op, const OpArguments& b, Tape& tape) override {
        CpuBackend::backward(op, b, tape);
        const auto* loss = std::get_if<SoftmaxXent>(&op);
        if (!loss) return;
        const Tensor gradient = b.value_gradients[loss->x];
        tape.push_back(
            {{.name = "fault"}, Resource::compute, [this, gradient, counters = b.counters, program = programs_++] {
                 if (gradient.count() == 0 || !faulty || !faulty(counters->step, program)) return;
                 auto& value = *gradient.as<float>();
                 value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 1u << 22);
             }});
    }

    /// Returns true where this rank is faulty. `program` counts from 0 in the order in which
    /// programs were built: the rank's own share, then those of the ranks before.
    std::function<bool(int64_t step, int program)> faulty;

private:
    int programs_ = 0;
};

class Audits final : public QuietListener {
public:
    void on_audit(const AuditReport& r) override { reports.push_back(r); }
    std::vector<int64_t> steps() const {
        std::vector<int64_t> all;
        for (const AuditReport& r : reports) all.push_back(r.step);
        return all;
    }
    /// Returns the steps whose audit found a difference.
    std::vector<int64_t> differing() const {
        std::vector<int64_t> all;
        for (const AuditReport& r : reports)
            if (!r.difference.empty()) all.push_back(r.step);
        return all;
    }
    std::vector<AuditReport> reports;
};

using Steps = std::vector<int64_t>;

/// Trains 8 steps of 12 samples, every second of which is audited.
class AuditedTraining : public testing::Test {
protected:
    AuditedTraining() {
        setup_.audit_every = 2;
        setup_.on_audit = OnAudit::warn;
    }
    /// Runs `body` here; on one rank it then runs it on 2 and 3.
    static void on_any_ranks(const std::function<void(int ranks)>& body) {
        body(test_comm().size());
        if (test_comm().size() > 1) return;
        for (const int ranks : {2, 3}) EXPECT_EQ("", problem_on_ranks(ranks)) << ranks << " ranks";
    }
    std::vector<AuditReport> train(FaultyBackend& backend) {
        Training training(backend, linear_graph(), samples_, nullptr, setup_);
        if (before_) before_(training);
        Audits audits;
        training.trainer.run(audits);
        EXPECT_EQ(audits.steps(), (Steps{2, 4, 6, 8}));
        differing_ = audits.differing();
        return audits.reports;
    }
    /// Expects a text that names `rank`, and no other rank.
    static void expect_named(const std::string& text, int rank, int ranks) {
        for (int r = 0; r < ranks; ++r)
            EXPECT_EQ(count(text, "rank " + std::to_string(r) + " on " + test_comm().host() + " ("), r == rank) << text;
    }

    const Samples samples_ = draw_samples(48, 5);
    TrainSetup setup_ = plain_setup(12, 2);
    std::function<void(Training&)> before_;
    Steps differing_;
};

TEST_F(AuditedTraining, SoundRanksRaiseNoAlarm) {
    on_any_ranks([&](int) {
        for (const int64_t logical : {0, 4}) {
            setup_.logical_ranks = logical;
            FaultyBackend backend(logical > 0);
            train(backend);
            EXPECT_EQ(differing_, Steps()) << logical;
        }
    });
}

// The wrong gradient of step 4 reaches all ranks, so later steps agree again.
TEST_F(AuditedTraining, AFaultOfOneStepIsNamedOnce) {
    on_any_ranks([&](int ranks) {
        const int bad = ranks - 1;
        for (const int program : {0, 1}) {
            FaultyBackend backend;
            if (test_comm().rank() == bad)
                backend.faulty = [=](int64_t step, int p) { return step == 3 && p == program; };
            const std::vector<AuditReport> reports = train(backend);
            ASSERT_EQ(differing_, Steps{4});
            const std::string text = reports[1].difference;
            EXPECT_EQ(count(text, "audit of step 4: "), 1) << text;
            EXPECT_EQ(count(text, "resume from a checkpoint of step 1 or before"), 1) << text;
            if (ranks != 2) expect_named(text, bad, ranks);
            EXPECT_EQ(count(text, "no majority tells which are right"), ranks == 2) << text;
        }
    });
}

// Only audited steps are compared.
TEST_F(AuditedTraining, AFaultBetweenAuditsIsNotSeen) {
    on_any_ranks([&](int) {
        FaultyBackend backend;
        if (test_comm().root()) backend.faulty = [](int64_t step, int) { return step == 2; };
        train(backend);
        EXPECT_EQ(differing_, Steps());
    });
}

TEST_F(AuditedTraining, ADeviceThatIsAlwaysWrongIsNamed) {
    on_any_ranks([&](int ranks) {
        for (const int64_t logical : {0, 5}) {
            setup_.logical_ranks = logical;
            FaultyBackend backend(logical > 0);
            const int bad = ranks - 1;
            if (test_comm().rank() == bad) backend.faulty = [](int64_t, int) { return true; };
            const std::vector<AuditReport> reports = train(backend);
            // A rank that is alone and always wrong in the same way agrees with itself.
            ASSERT_EQ(differing_, ranks == 1 ? Steps() : (Steps{2, 4, 6, 8})) << logical;
            if (ranks != 3) continue;
            for (const AuditReport& r : reports) {
                expect_named(r.difference, bad, ranks);
                EXPECT_EQ(count(r.difference, "computed other gradients than two ranks that agree"), 1);
                EXPECT_EQ(count(r.difference, "and begin again"), 1) << r.difference;
            }
        }
    });
}

TEST_F(AuditedTraining, AWeightThatChangedOnOneRankIsNamed) {
    on_any_ranks([&](int ranks) {
        for (const int64_t logical : {0, 5}) {
            setup_.logical_ranks = logical;
            FaultyBackend backend(logical > 0);
            before_ = [&](Training& training) {
                if (test_comm().rank() != ranks - 1) return;
                const float other = 0.75f;
                backend.upload(training.trainer.programs().state().params()[0].data, &other, sizeof other);
            };
            const std::vector<AuditReport> reports = train(backend);
            ASSERT_EQ(differing_, ranks == 1 ? Steps() : (Steps{2, 4, 6, 8})) << logical;
            for (const AuditReport& r : reports) {
                if (ranks == 3) expect_named(r.difference, 2, ranks);
                EXPECT_EQ(count(r.difference, "has other weights than most ranks"), ranks == 3) << r.difference;
                EXPECT_EQ(count(r.difference, "have different weights, and no majority"), ranks == 2) << r.difference;
            }
        }
    });
}

TEST_F(AuditedTraining, StopEndsAllRanksWithOneMessage) {
    setup_.on_audit = OnAudit::stop;
    on_any_ranks([&](int) {
        FaultyBackend backend;
        if (test_comm().root()) backend.faulty = [](int64_t step, int program) { return step == 5 && program == 0; };
        Training training(backend, linear_graph(), samples_, nullptr, setup_);
        Audits audits;
        try {
            training.trainer.run(audits);
            FAIL() << "trained to the end";
        } catch (const Error& error) {
            EXPECT_EQ(error.code, Exit::not_accepted);
            EXPECT_TRUE(error.everywhere);
            EXPECT_EQ(error.what(), audits.reports.back().difference);
        }
        EXPECT_EQ(audits.steps(), (Steps{2, 4, 6}));
        EXPECT_TRUE(audits.reports.back().ends);
    });
}

}  // namespace
}  // namespace convoy::test
