// tests/peers/bench_peers.py, bench_gpu.py and bench_data.py with stand-ins for Convoy, PyTorch and
// hosts: images/s in their tables are images over wall time on both sides. Run from the
// repository's root.
#include <gtest/gtest.h>
#include <sched.h>

#include <regex>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class BenchScripts : public testing::Test {
protected:
    void SetUp() override {
        cpu_set_t mine;
        ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
        if (CPU_COUNT(&mine) < 2) GTEST_SKIP() << "bench_peers takes two cores";
        // Wall time gives 50 against 20, 2.5 times; the median step gives 200 against 40, five
        // times.
        stand_in(
            "convoy",
            R"(echo '{"device": "stand-in", "images_per_second": {"median": 200, "p10": 200, "p90": 200, "wall": 50},)"
            R"( "step_seconds": 1, "operations": [], "ceilings": {"roofline_seconds": 0.75}}')");
        stand_in(
            "torch_step.py", "",
            "#!/usr/bin/env python3\nprint('model 1.0 ms  20.0 images/s over wall time, 40.0 by the median step')\n");
        stand_in("python", "[[ $1 != -W ]] || { echo 2.0; exit; }; exec /usr/bin/python3 \"$@\"");
    }
    void stand_in(const std::string& name, const std::string& body, const std::string& text = "") {
        write_file(dir_.path(name), text.empty() ? "#!/bin/bash\n" + body + "\n" : text);
        ASSERT_EQ(run("chmod +x " + dir_.path(name)).code, 0);
    }
    Finished script(const std::string& arguments) { return run("${PYTHON:-/usr/bin/python3} " + arguments); }
    Finished peers(const std::string& more = "") {
        return script("tests/peers/bench_peers.py --python " + dir_.path("python") + " --convoy " +
                      dir_.path("convoy") + " --peer " + dir_.path("torch_step.py") +
                      " --rounds 1 --lines 'mnist-conv 1024 f32 1x'" + more);
    }
    /// Stands in for a Convoy whose steps last 1, 2 and 4 s after an epoch of others. A hundredth
    /// of each is data. If images are not replicated, it is 3 % of the last step, and the whole
    /// takes 10 s instead of 8. Starts are logged in the file "starts".
    void stand_in_for_training() {
        stand_in("convoy", R"(case $1 in info) echo 'convoy of-a-test'; exit;; convert) exit;; esac
set -- $(sed -E 's/.*--output ([^ ]+).*--data-placement ([a-z]+).*/\1 \2/' <<<"$*")
echo ${RANKS:-1} $2 >>)" + dir_.path("starts") +
                               R"(
[ $2 = replicate ] && more='0.04 8' || more='0.12 10'
mkdir -p $1
python3 - $more >$1/metrics.jsonl <<'ROWS'
import json, sys
last, seconds = map(float, sys.argv[1:])
for epoch, steps in (1, [(5, 5)]), (2, [(1, 0.01), (2, 0.02)]), (3, [(4, last)]):
    for step, data in steps:
        print(json.dumps({"kind": "train", "epoch": epoch, "step_seconds": step, "data_seconds": data}))
    print(json.dumps({"kind": "epoch", "epoch": epoch, "images": 40, "seconds": seconds / 2 if epoch > 1 else 1}))
print(json.dumps({"kind": "event", "message": "done"}))
ROWS)");
        stand_in("mpirun", "while [[ $1 != */convoy ]]; do RANKS=$1; shift; done; export RANKS; exec \"$@\"");
        stand_in("hosts", "RANKS=hosts sh -c \"$1\"; echo \"$? 0\"");
    }
    Finished data_of(const std::string& section, int rounds) {
        return run("PATH=" + dir_.path() + ":$PATH ${PYTHON:-/usr/bin/python3} tests/peers/bench_data.py --only " +
                   section + " --photographs 8 --rounds " + std::to_string(rounds) + " --convoy " +
                   dir_.path("convoy") + " --hosts " + dir_.path("hosts"));
    }
    TempDir dir_;
};

TEST_F(BenchScripts, PeersCompareWallTimes) {
    const Finished f = peers();
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.out.find("| 20.0 | 50.0 | 2.50 "), std::string::npos) << f.out;
    EXPECT_NE(f.out.find("| 75 % |\n"), std::string::npos) << f.out;  // may follow a note about other programs
    EXPECT_EQ(count(f.out, "median step"), 0) << f.out;
}

// A user's own peer may not know wall time. The table then uses the median step on both sides, and
// says so.
TEST_F(BenchScripts, PeersAreTheFasterOfEagerAndCompiled) {
    for (const auto& [compiled, ratio] : {std::pair{"40", "1.25"}, {"10", "2.50"}}) {
        stand_in("torch_step.py", "",
                 "#!/usr/bin/env python3\nimport sys\nprint('model', " + std::string(compiled) +
                     " if '--compile' in sys.argv else 20, 'images/s over wall time')\n");
        const Finished f = peers(" --compiled");
        ASSERT_EQ("", failure(f));
        EXPECT_NE(f.out.find(std::string("| 20.0 | ") + compiled + ".0 | 50.0 | " + ratio + " "), std::string::npos)
            << f.out;
    }
}

TEST_F(BenchScripts, PeersCompareMedianStepsIfOneSideHasNoOther) {
    stand_in("torch_step.py", "", "print('model 1.0 ms  40.0 images/s')\n");
    const Finished f = peers();
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.out.find("| 40.0 | 200.0 | 5.00 (by the median step)"), std::string::npos) << f.out;
}

TEST_F(BenchScripts, GpusCompareWallTimes) {
    ASSERT_EQ(run("cp tests/peers/bench_gpu.py " + dir_.path("bench_gpu.py")).code, 0);
    const Finished f = script(dir_.path("bench_gpu.py") + " --build " + dir_.path() + " --only airbench94");
    ASSERT_EQ("", failure(f));
    // The gap between steps of 1,024 images: 1024 / 50 - 1024 / 200 seconds.
    EXPECT_EQ("", failure(run("grep -E '^airbench94 +32x32x3 +1024 +bf16 +50 +75 % +15360000 +20 +2.50$' <<'TABLE'\n" +
                              f.out + "\nTABLE")))
        << f.out;
}

// The lines have 50 and 100 images/s by wall time, measured twice, alternately: their ratio is 2.
TEST_F(BenchScripts, GpusCompareTwoLinesInTurns) {
    ASSERT_EQ(run("cp tests/peers/bench_gpu.py " + dir_.path("bench_gpu.py")).code, 0);
    ASSERT_EQ(run("mkdir " + dir_.path("other") + " && sed 's/\"wall\": 50/\"wall\": 100/' " + dir_.path("convoy") +
                  " >" + dir_.path("other/convoy") + " && chmod +x " + dir_.path("other/convoy"))
                  .code,
              0);
    const Finished f =
        script(dir_.path("bench_gpu.py") + " --build " + dir_.path() + " --rounds 2 --peer none --jsonl " +
               dir_.path("lines") + " --line 'resnet50 f16 256 --norm-by kernels' --line 'BUILD=" + dir_.path("other") +
               " resnet50 f16 256'");
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.out.find("after / before, medians of 2: 100.0 / 50.0 = 2.0000\n"), std::string::npos) << f.out;
    const std::string rows = read_file(dir_.path("lines"));
    const std::regex wall("\"wall\": ([0-9]+)");
    std::string order;
    for (std::sregex_iterator at(rows.begin(), rows.end(), wall), end; at != end; ++at) order += (*at)[1].str() + " ";
    EXPECT_EQ(order, "50 100 50 100 ");
}

TEST_F(BenchScripts, GpusMeasureThePeerAlone) {
    ASSERT_EQ(run("cp tests/peers/bench_gpu.py " + dir_.path("bench_gpu.py")).code, 0);
    const Finished f = script(dir_.path("bench_gpu.py") +
                              " --no-convoy --peer eager --line 'resnet50 f16 256' --jsonl " + dir_.path("lines"));
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(read_file(dir_.path("lines")),
              "{\"line\": \"resnet50 f16 256\", \"peer\": \"eager\", \"images_per_second\": {\"wall\": 20.0}}\n");
}

TEST_F(BenchScripts, GpusRefuseALineThatIsNone) {
    for (const char* line : {"resnet51 f16 256", "resnet50 256 f16", "resnet50"}) {
        const Finished f = script("tests/peers/bench_gpu.py --line '" + std::string(line) + "'");
        EXPECT_EQ(f.code, 1);
        EXPECT_EQ(count(f.err, "\n"), 1) << f.err;
        EXPECT_NE(f.err.find("bench_gpu: '" + std::string(line) + "' is no line"), std::string::npos) << f.err;
    }
}

// Rates are 4, 2 and 1 GB/s for raw reads, and 1 GB/s for pieces every time: medians, and the
// median of ratios.
TEST_F(BenchScripts, DataRatesAreMediansOfRounds) {
    stand_in("reading", R"(echo 'Convoy of a test'
for seconds in 0.25 0.5 1; do echo "raw 2 $seconds 1000000000 500"; echo 'pieces 2 1 1000000000 500'; done)");
    const Finished f = script("tests/peers/bench_data.py --only reading --rounds 3 --reading " + dir_.path("reading"));
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.out.find("| raw | 2 | 2.00 | - | 1.00 |\n| pieces | 2 | 1.00 | 500 | 0.50 |\n"), std::string::npos)
        << f.out;
    EXPECT_NE(f.out.find("Convoy of a test"), std::string::npos) << f.out;
}

TEST_F(BenchScripts, DataSaysWhyThereAreNoRates) {
    stand_in("reading", "echo 'convoy_reading: /x/set: cannot be written; is the disk full?' >&2; exit 5");
    const Finished f = script("tests/peers/bench_data.py --only reading --reading " + dir_.path("reading"));
    EXPECT_EQ(f.code, 1);
    EXPECT_NE(f.err.find("bench_data: convoy_reading: /x/set: cannot be written; is the disk full?\n"),
              std::string::npos)
        << f.err;
}

// Data take 0.07 and 0.15 of seven seconds; the rates are 80 images in 8 and in 10 s.
TEST_F(BenchScripts, DataOfATrainingIsItsShareOfSteps) {
    stand_in_for_training();
    const Finished f = data_of("training", 2);
    ASSERT_EQ("", failure(f));
    for (const char* end : {"| replicate | 2000.0 | 1.00 % | 1.00 % | 10.0 | 1.000 |\n",
                            "| stream | 2000.0 | 1.00 % | 2.14 % | 8.0 | 0.800 |\n"})
        EXPECT_EQ(count(f.out, end), 2) << end << f.out;
    EXPECT_NE(f.out.find("Convoy of-a-test"), std::string::npos) << f.out;
    EXPECT_EQ(read_file(dir_.path("starts")),
              "1 replicate\n1 stream\n2 replicate\n2 stream\n2 stream\n2 replicate\n1 stream\n1 replicate\n");
}

TEST_F(BenchScripts, DataOfAnExchangeIsMeasuredOnTwoHosts) {
    stand_in_for_training();
    const Finished f = data_of("exchange", 1);
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(count(f.out, "| partition | 2000.0 | 1.00 % | 2.14 % | 8.0 | 0.800 |\n"), 1) << f.out;
    EXPECT_EQ(read_file(dir_.path("starts")), "hosts replicate\nhosts partition\n");
    stand_in("hosts", R"([ "${1::5}" = 'true ' ] && echo '0 1' || { sh -c "$1"; echo '7 1'; })");
    stand_in("convoy", R"([ $1 != train ] || echo 'convoy: out of memory')");
    const Finished failed = data_of("exchange", 1);
    EXPECT_EQ(failed.code, 1);
    EXPECT_EQ(failed.err, "bench_data: exit code 7 on two hosts: convoy: out of memory\n");
}

// A stand-in that sleeps for a second converts eight images, so fewer than eight per second.
TEST_F(BenchScripts, DataOfAConversionCountsAllImages) {
    stand_in_for_training();  // also makes the stand-in for mpirun
    stand_in("convoy", R"(echo "$@" >>)" + dir_.path("starts") + R"(; ls "$6"/*/*.jpeg | wc -l >>)" +
                           dir_.path("starts") + "; sleep 1");
    const Finished f = data_of("conversion", 1);
    ASSERT_EQ("", failure(f));
    const size_t at = f.out.find("| convoy | 1 | ");
    ASSERT_NE(at, std::string::npos) << f.out;
    const double rate = std::stod(f.out.substr(at + 15));
    EXPECT_GE(rate, 1) << f.out;
    EXPECT_LE(rate, 8) << f.out;
    EXPECT_EQ(count(f.out, "| Pillow | 1 | "), 1) << f.out;
    const std::string starts = read_file(dir_.path("starts"));
    EXPECT_EQ(starts.find("convert imagefolder --short-side 256 --from "), 0u) << starts;
    EXPECT_NE(starts.find("\n8\n"), std::string::npos) << starts;
}

TEST_F(BenchScripts, DataGoesOnWithoutHosts) {
    stand_in("hosts", "exit 77");
    const Finished f = data_of("exchange", 1);
    ASSERT_EQ("", failure(f));
    EXPECT_NE(f.out.find("left out: two hosts cannot be emulated here (exit code 77)\n"), std::string::npos) << f.out;
}

}  // namespace
}  // namespace convoy::test
