// convoy accept on emulated hosts of which one has a fault that was planted from outside: that host
// is named, and no other. accept_faults.py and accept_flips.py emulate, plant and judge.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

/// Runs a script of this folder in separate namespaces.
Finished with_hosts(const std::string& script_and_options, int seconds) {
    return run(
        with_limit("unshare --net --mount --pid --ipc --fork --mount-proc --kill-child /usr/bin/python3 -B "
                   "tests/faults/" +
                       script_and_options + " " + sibling("convoy"),
                   seconds));
}

bool may_emulate_hosts() {
    return run("unshare --net --mount --pid --ipc --fork --mount-proc --kill-child true").code == 0;
}

struct PlantedFault {
    std::string name, fault, promised;
};
void PrintTo(const PlantedFault& f, std::ostream* out) { *out << f.name; }

class AcceptFaults : public testing::TestWithParam<PlantedFault> {};

TEST_P(AcceptFaults, AreNamedWithTheirHostAndNoOther) {
    if (!may_emulate_hosts()) GTEST_SKIP() << "this user may not make namespaces";
    int tries = 0, right = 0;
    std::string printed;
    const auto try_again = [&](int times) {
        const Finished f = with_hosts("accept_faults.py " + GetParam().name + " " + std::to_string(times), 330 * times);
        tries += times, right += count(f.out, ": right\n"), printed += f.out + f.err;
        return f.code;
    };
    if (try_again(long_form() ? 20 : 1) == 77) GTEST_SKIP() << printed;
    // Other users of this machine may disturb one try, but not two more.
    if (!long_form() && right == 0) try_again(2);
    EXPECT_GE(right, tries == 3 ? 2 : tries) << printed;
    record_fault(GetParam().fault, GetParam().promised,
                 "right " + std::to_string(right) + " of " + std::to_string(tries), tries);
}

const std::string named = "`accept` names that host, and no other";
INSTANTIATE_TEST_SUITE_P(
    All, AcceptFaults,
    testing::Values(PlantedFault{"slow-link", "one of four hosts with a cable of 10 Mbit/s", named},
                    PlantedFault{"late-link", "one of four hosts with a cable that adds 20 ms", named},
                    PlantedFault{"lossy-link", "one of four hosts with a cable that loses 5 % of the packets", named},
                    PlantedFault{"quota", "one of four hosts with half the processor time", named},
                    PlantedFault{"neighbour", "one of four hosts where another program computes", named},
                    PlantedFault{"library", "one of four hosts with another libhdf5", named},
                    PlantedFault{"system", "one of four hosts with another operating system", named},
                    PlantedFault{"full-memory", "one of four hosts with a full /dev/shm", named},
                    PlantedFault{"slow-folder", "one of four hosts with a slow file system for the data", named},
                    PlantedFault{"none-of-3", "three sound hosts", "`accept` names none"},
                    PlantedFault{"none-of-4", "four sound hosts", "`accept` names none"},
                    PlantedFault{"none-of-5", "five sound hosts", "`accept` names none"}),
    [](const auto& tested) {
        std::string name = tested.param.name;
        std::ranges::replace(name, '-', '_');
        return name;
    });

// The first flip makes a weight so large that no later loss is finite.
TEST(AcceptFaultsOfBits, AreNamedWithHostRankAndStepAndCleanStepsRaiseNoAlarm) {
    if (!may_emulate_hosts()) GTEST_SKIP() << "this user may not make namespaces";
    const int flips = long_form() ? 50 : 2, steps = long_form() ? 10000 : 400;
    const Finished f =
        with_hosts("accept_flips.py " + std::to_string(flips) + " " + std::to_string(steps), 200 + 40 * flips);
    if (f.code == 77) GTEST_SKIP() << f.out;
    EXPECT_EQ(count(f.out, ": named\n"), flips) << f.out << f.err;
    EXPECT_EQ(count(f.out, "; PASS: []\n"), 1) << f.out;
    EXPECT_EQ(f.code, 0);
    record_fault("a random bit of a random weight of one of four hosts, flipped by another program at a random step",
                 "`accept` names host, rank and step, and no other rank",
                 "named " + std::to_string(count(f.out, ": named\n")) + " of " + std::to_string(flips), flips);
}

}  // namespace
}  // namespace convoy::test
