// The conclusions of an acceptance test from measurements: who is blamed, who is not, and the files
// that other programs read.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "accept/bits.h"
#include "accept/fingerprints.h"
#include "accept/input.h"
#include "accept/reports.h"
#include "accept/speed.h"
#include "accept/sums.h"
#include "tests/support/support.h"
#include "tests/unit/usage_message.h"

namespace convoy::test {
namespace {

const BitsCase small{"mnist-conv", 28, 8, 3};

/// Returns ranks of one kind on hosts n0, n1, …; each text has a letter for the hash of a step.
std::vector<RankBits> ranks_with(const std::vector<std::string>& steps, const std::string& kind = "cpu") {
    std::vector<RankBits> ranks;
    for (size_t i = 0; i < steps.size(); ++i) {
        RankBits r{"n" + std::to_string(i), "rank " + std::to_string(i), kind, {}};
        for (const char c : steps[i]) r.steps.push_back(std::string(1, c));
        ranks.push_back(r);
    }
    return ranks;
}

std::vector<std::string> blamed(const LevelResult& r) {
    std::vector<std::string> all;
    for (const Blamed& b : r.blamed) all.push_back(b.host + ": " + b.reason);
    return all;
}

TEST(Accept, TheMinorityIsNamedWithTheFirstWrongStep) {
    const LevelResult r = compare_bits(small, ranks_with({"abc", "abc", "aXY", "abc"}), {});
    EXPECT_EQ(r.outcome, Outcome::fail);
    EXPECT_EQ(blamed(r),
              std::vector<std::string>({"n2: wrong bits from step 2 of mnist-conv 28x28, batch 8, 3 steps"}));
    EXPECT_EQ(hosts_to_drain({r}), std::vector<std::string>({"n2"}));
}

TEST(Accept, TwoDevicesThatDifferAreBothNamedUnlessAFingerprintDecides) {
    const std::vector<RankBits> two = ranks_with({"abc", "abX"});
    const LevelResult unknown = compare_bits(small, two, {});
    EXPECT_EQ(unknown.outcome, Outcome::fail);
    EXPECT_EQ(unknown.blamed.size(), 2u);
    EXPECT_EQ(hosts_to_drain({unknown}), std::vector<std::string>());
    const LevelResult known = compare_bits(small, two, {}, {{{"cpu", small.name()}, {"a", "b", "c"}}});
    EXPECT_EQ(hosts_to_drain({known}), std::vector<std::string>({"n1"}));
}

TEST(Accept, KindsAreComparedEachForItself) {
    std::vector<RankBits> ranks = ranks_with({"abc", "abc"});
    for (const RankBits& r : ranks_with({"xyz", "xyz", "xyW"}, "gpu")) ranks.push_back(r);
    ranks[4].host = "n4";
    const LevelResult r = compare_bits(small, ranks, {});
    EXPECT_EQ(hosts_to_drain({r}), std::vector<std::string>({"n4"}));
    EXPECT_EQ(r.blamed.size(), 1u);
}

TEST(Accept, OneDeviceIsNotComparedWithoutAFingerprint) {
    EXPECT_EQ(compare_bits(small, ranks_with({"abc"}), {}).outcome, Outcome::skip);
    const Fingerprints known = {{{"cpu", small.name()}, {"a", "b", "c"}}};
    EXPECT_EQ(compare_bits(small, ranks_with({"abc"}), {}, known).outcome, Outcome::pass);
    EXPECT_EQ(compare_bits(small, ranks_with({"abX"}), {}, known).outcome, Outcome::fail);
    EXPECT_EQ(compare_bits(small, ranks_with({"ab"}), {}, known).outcome, Outcome::fail);
}

TEST(Accept, OtherBitsTogetherThanAloneAreAFailure) {
    const std::vector<RankBits> two = ranks_with({"abc", "abc"});
    const StepHashes same = {"a", "b", "c"}, other = {"a", "X", "c"};
    EXPECT_EQ(compare_bits(small, two, {same, same}).outcome, Outcome::pass);
    const LevelResult r = compare_bits(small, two, {same, other});
    EXPECT_EQ(r.outcome, Outcome::fail);
    ASSERT_EQ(r.blamed.size(), 1u);
    EXPECT_NE(r.blamed[0].reason.find("from step 2"), std::string::npos) << r.blamed[0].reason;
}

TEST(Accept, FingerprintsComeBackAsTheyWere) {
    const TempDir dir;
    const Fingerprints some = {
        {{"EPYC, \"Zen\" 5; oneDNN 3.2", "a, 2 steps"}, {"0000000000000001", "0123456789abcdef"}},
        {{"b", "c, 1 steps"}, {"0000000000000003"}}};
    save_fingerprints(dir.path("f.csv"), some);
    EXPECT_EQ(read_fingerprints(dir.path("f.csv")), some);
    save_fingerprints(dir.path("f.csv"), {{{"d", "e, 1 steps"}, {"0000000000000004"}}});
    EXPECT_EQ(read_fingerprints(dir.path("f.csv")).size(), 3u);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"f.csv", "has other bits of c, 1 steps for b"}, [&] {
                  save_fingerprints(dir.path("f.csv"), {{{"b", "c, 1 steps"}, {"0000000000000005"}}});
              }));
    const std::string good = "\"a\",\"b, 1 steps\",\"0123456789abcdef\"\n";
    for (const char* bad : {"kind,case\n", "\"a\",\"b, 2 steps\",\"0123456789abcdef\"\n",
                            "\"a\",\"b, 1 steps\",\"0123456789abcde\"\n", "\"a\",\"b, 1 steps\",\"\"\n"}) {
        write_file(dir.path("bad.csv"), good + bad);
        EXPECT_EQ("",
                  problem_of_error(Exit::bad_input, {"bad.csv:2: "}, [&] { read_fingerprints(dir.path("bad.csv")); }));
    }
}

// Another user may put these there while the tests run.
TEST(Accept, FingerprintsThatContradictEachOtherAreNamedWithBothLines) {
    const TempDir dir;
    const std::string head = "\"kind of device\",\"training\",\"hash after each step\"\n",
                      line = "\"a\",\"b, 1 steps\",\"0000000000000001\"\n",
                      other = "\"a\",\"b, 1 steps\",\"0000000000000002\"\n",
                      third = "\"c\",\"b, 1 steps\",\"0000000000000002\"\n";
    write_file(dir.path("twice.csv"), head + line + third + head + line);
    EXPECT_EQ(read_fingerprints(dir.path("twice.csv")).size(), 2u) << "as cat joins files";
    write_file(dir.path("f.csv"), head + third + line + head + other);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"f.csv:5: ", "line 3", "'a'", "'b, 1 steps'", "remove"},
                                   [&] { read_fingerprints(dir.path("f.csv")); }));
}

TEST(Accept, FingerprintsAreSavedThroughNoLinkAndNoPipe) {
    const TempDir dir;
    const std::string file = dir.path("f.csv"), mine = dir.path("mine.csv");
    const Fingerprints some = {{{"a", "b, 1 steps"}, {"0000000000000001"}}};
    save_fingerprints(mine, some);
    const std::string before = read_file(mine);
    const auto is_refused = [&] {
        return problem_of_error(Exit::io, {file, "is not a regular file"},
                                [&] { save_fingerprints(file, {{{"c", "d, 1 steps"}, {"0000000000000002"}}}); });
    };
    ASSERT_EQ(::symlink("mine.csv", file.c_str()), 0);
    EXPECT_EQ("", is_refused());
    ASSERT_EQ(::unlink(file.c_str()), 0);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    EXPECT_EQ("", is_refused());
    EXPECT_EQ(read_file(mine), before);
}

TEST(Accept, FingerprintsOfAnySizeAreRefused) {
    const TempDir dir;
    std::string lines;
    for (int i = 0; lines.size() <= size_t(4) << 20; ++i)
        lines += "\"kind " + std::to_string(i) + "\",\"b, 1 steps\",\"0123456789abcdef\"\n";
    write_file(dir.path("f.csv"), lines);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"f.csv", "holds more than 4194304 bytes"},
                                   [&] { read_fingerprints(dir.path("f.csv")); }));
}

TEST(Accept, ATournamentLetsEachPairMeetOnceAndNobodyTwiceInARound) {
    for (int n = 2; n <= 9; ++n) {
        std::vector<std::vector<int>> met(size_t(n), std::vector<int>(size_t(n), 0));
        const auto rounds = rounds_of(n);
        EXPECT_EQ(rounds.size(), size_t(n % 2 ? n : n - 1));
        for (const auto& round : rounds) {
            std::vector<int> plays(size_t(n), 0);
            for (const auto& [a, b] : round) {
                ++plays[a], ++plays[b];
                ++met[a][b];
            }
            for (const int times : plays) EXPECT_LE(times, 1);
        }
        for (int a = 0; a < n; ++a)
            for (int b = a + 1; b < n; ++b) EXPECT_EQ(met[a][b], 1) << n << ": " << a << " and " << b;
    }
}

NodeSums nodes_with(size_t n, double pair) {
    NodeSums s;
    for (size_t i = 0; i < n; ++i) s.hosts.push_back("n" + std::to_string(i));
    s.inside.assign(n, 0);
    s.pairs.assign(n, std::vector<double>(n, pair));
    s.all = pair;
    return s;
}
void set_pair(NodeSums& s, size_t a, size_t b, double rate) { s.pairs[a][b] = s.pairs[b][a] = rate; }

TEST(Accept, ASlowCardIsNamedByItsPairsAndItsPartnersAreNot) {
    for (const size_t n : {3, 4, 5, 16}) {
        NodeSums s = nodes_with(n, 10e9);
        EXPECT_EQ(judge_sums(s, 1 << 22).outcome, Outcome::pass);
        for (size_t other = 0; other < n; ++other)
            if (other != 2) set_pair(s, 2, other, 1e9);
        const LevelResult r = judge_sums(s, 1 << 22);
        EXPECT_EQ(hosts_to_drain({r}), std::vector<std::string>({"n2"})) << n;
        EXPECT_EQ(r.blamed.size(), 1u) << n;
    }
}

// A cable that loses packets may lose none while one of its pairs is measured.
TEST(Accept, ACardThatWasFastWithOneNodeIsNamedIfNoOtherHasAsManySlowLinks) {
    NodeSums s = nodes_with(4, 10e9);
    set_pair(s, 1, 2, 2e9);
    set_pair(s, 1, 3, 3e9);
    const LevelResult r = judge_sums(s, 1 << 22);
    ASSERT_EQ(r.blamed.size(), 1u);
    EXPECT_EQ(r.blamed[0].host, "n1");
    EXPECT_NE(r.blamed[0].reason.find("slow with 2 of 3 other nodes: 3 GB/s, sound pairs 10 GB/s"), std::string::npos)
        << r.blamed[0].reason;
    set_pair(s, 0, 3, 2e9);  // now n3 has as many: only the links are certain
    EXPECT_EQ(judge_sums(s, 1 << 22).blamed.size(), 3u);
    EXPECT_EQ(hosts_to_drain({judge_sums(s, 1 << 22)}), std::vector<std::string>());
    for (const size_t n : {5, 16}) {
        NodeSums two = nodes_with(n, 10e9);
        for (const size_t bad : {1, 2})
            for (size_t other = 0; other < n; ++other)
                if (other != bad) set_pair(two, bad, other, 1e9);
        EXPECT_EQ(hosts_to_drain({judge_sums(two, 1 << 22)}), std::vector<std::string>({"n1", "n2"})) << n;
    }
}

TEST(Accept, ASlowLinkIsNamedByItsTwoEnds) {
    NodeSums s = nodes_with(4, 10e9);
    set_pair(s, 1, 3, 2e9);
    const LevelResult r = judge_sums(s, 1 << 22);
    ASSERT_EQ(r.blamed.size(), 1u);
    EXPECT_EQ(r.blamed[0].host, "n1 and n3");
    EXPECT_EQ(hosts_to_drain({r}), std::vector<std::string>());
}

TEST(Accept, WrongSumsAreAFailureWhereTheyWereSeen) {
    NodeSums s = nodes_with(2, 10e9);
    s.wrong = {"", "n1, rank 1: element 3 of an all-reduce over 2 ranks is 5 instead of 4"};
    const LevelResult r = judge_sums(s, 1 << 22);
    EXPECT_EQ(r.outcome, Outcome::fail);
    EXPECT_EQ(hosts_to_drain({r}), std::vector<std::string>({"n1"}));
}

std::vector<RankSpeed> speeds(const std::vector<std::pair<double, double>>& rates) {
    std::vector<RankSpeed> ranks;
    for (size_t i = 0; i < rates.size(); ++i)
        ranks.push_back({"n" + std::to_string(i), "rank " + std::to_string(i), "gpu", rates[i].first, rates[i].second});
    return ranks;
}

TEST(Accept, ARankThatIsAlwaysSlowIsToldFromOneThatNeighboursSlow) {
    const LevelResult sound = compare_speeds(speeds({{100, 99}, {103, 101}, {98, 97}, {101, 96}}), 380);
    EXPECT_EQ(sound.outcome, Outcome::pass) << level_text(sound);
    const LevelResult slow = compare_speeds(speeds({{100, 99}, {80, 79}, {98, 97}, {101, 100}}), 300);
    EXPECT_EQ(slow.outcome, Outcome::fail);
    EXPECT_EQ(hosts_to_drain({slow}), std::vector<std::string>({"n1"}));
    EXPECT_EQ(slow.blamed.size(), 1u);
    const LevelResult crowded = compare_speeds(speeds({{100, 99}, {102, 60}, {98, 97}, {101, 100}}), 300);
    EXPECT_EQ(crowded.outcome, Outcome::warn);
    ASSERT_EQ(crowded.blamed.size(), 1u);
    EXPECT_NE(crowded.blamed[0].reason.find("only while its neighbours work"), std::string::npos);
    EXPECT_EQ(compare_speeds(speeds({{5, 5}}), 0).outcome, Outcome::skip);
    const LevelResult two = compare_speeds(speeds({{100, 99}, {60, 59}}), 150);
    EXPECT_EQ(two.outcome, Outcome::warn);
    EXPECT_EQ(hosts_to_drain({two}), std::vector<std::string>());
    const LevelResult once = compare_speeds(speeds({{80, 98}, {100, 100}, {99, 99}}), 290);
    EXPECT_EQ(once.outcome, Outcome::pass) << level_text(once);
}

TEST(Accept, SpeedsAreMeasuredAgainIfARankLooksSlowAndTheHighestCount) {
    EXPECT_FALSE(is_doubtful(speeds({{100, 99}, {93, 92}, {98, 97}, {101, 96}})));
    EXPECT_FALSE(is_doubtful(speeds({{100, 99}, {92, 91}})));
    EXPECT_FALSE(is_doubtful(speeds({{100, 99}})));
    EXPECT_TRUE(is_doubtful(speeds({{100, 99}, {80, 92}, {98, 97}, {101, 96}})));
    EXPECT_TRUE(is_doubtful(speeds({{100, 99}, {98, 60}})));
    // Noise hides a host at half the speed: it is within four deviations. A second measurement
    // shows it, because noise only makes ranks slower.
    std::vector<RankSpeed> ranks = speeds({{100, 99}, {50, 49}, {80, 97}, {101, 96}});
    EXPECT_EQ(compare_speeds(ranks, 300).outcome, Outcome::warn);
    EXPECT_TRUE(is_doubtful(ranks));
    keep_best(ranks, speeds({{99, 70}, {51, 48}, {100, 60}, {60, 98}}));
    EXPECT_EQ(ranks[0].beside, 99);
    EXPECT_EQ(ranks[2].alone, 100);
    EXPECT_EQ(ranks[3].beside, 98);
    EXPECT_EQ(hosts_to_drain({compare_speeds(ranks, 300)}), std::vector<std::string>({"n1"}));
}

TEST(Accept, ALoneHostHasNoOtherThatItIsComparedWith) {
    std::vector<RankSpeed> ranks = speeds({{100, 99}, {80, 79}, {98, 97}, {101, 100}});
    for (RankSpeed& r : ranks) r.host = "n0";
    const LevelResult lone = compare_speeds(ranks, 300);
    EXPECT_EQ(lone.outcome, Outcome::warn) << level_text(lone);
    EXPECT_EQ(lone.blamed.size(), 1u);
    EXPECT_EQ(hosts_to_drain({lone}), std::vector<std::string>());
    ranks[3].host = "n1";
    EXPECT_EQ(compare_speeds(ranks, 300).outcome, Outcome::fail);
}

TEST(Accept, ADeviceThatIsAloneInItsKindIsNotSaidToBeRight) {
    std::vector<RankBits> ranks = ranks_with({"abc", "abc"});
    ranks[1].kind = "other cpu";
    const LevelResult apart = compare_bits(small, ranks, {});
    EXPECT_EQ(apart.outcome, Outcome::skip);
    ranks.push_back(ranks[0]);
    const LevelResult some = compare_bits(small, ranks, {});
    EXPECT_EQ(some.outcome, Outcome::warn);
    EXPECT_NE(some.figure.find("of 2 kinds; 1 were compared with nothing"), std::string::npos) << some.figure;
}

TEST(Accept, DevicesOfAnotherKindAreNoMeasure) {
    std::vector<RankSpeed> ranks = speeds({{100, 99}, {101, 99}, {50, 49}, {51, 50}});
    ranks[2].kind = ranks[3].kind = "older gpu";
    EXPECT_EQ(compare_speeds(ranks, 290).outcome, Outcome::pass);
}

TEST(Accept, ANodeThatReadsSlowlyIsNamed) {
    const std::vector<NodeReading> nodes = {{"a", 4e9, 1, 8}, {"b", 4e9, 4, 8}, {"c", 4e9, 1.1, 8}};
    const LevelResult unread = judge_reading({{"a", 0, 1, 0, "x.h5: Permission denied"}}, {"a", 0, 1, 0});
    EXPECT_EQ(unread.outcome, Outcome::fail);
    EXPECT_EQ(blamed(unread), std::vector<std::string>({"a: cannot read x.h5: Permission denied"}));
    const LevelResult r = judge_reading(nodes, {"a", 4e9, 0.5, 8});
    EXPECT_EQ(r.outcome, Outcome::warn);
    ASSERT_EQ(r.blamed.size(), 1u);
    EXPECT_EQ(r.blamed[0].host, "b");
    EXPECT_NE(r.figure.find("8 GB/s by one alone"), std::string::npos) << r.figure;
}

Acceptance some_results() {
    LevelResult good{.level = "sums", .figure = "12 GB/s", .seconds = 1.5},
        bad{.level = "bits",
            .outcome = Outcome::fail,
            .figure = "3 of 4",
            .blamed = {{"node07", "GPU 3", "wrong <bits> & \"more\"", true}},
            .seconds = 2},
        none{.level = "input", .outcome = Outcome::skip, .figure = "no data"};
    return {.version = "1",
            .commit = "c",
            .began = "2026-01-02T03:04:05Z",
            .nodes = 2,
            .ranks = 4,
            .levels = {good, bad, none}};
}

TEST(Accept, TheVerdictNamesWhatToLeaveOut) {
    EXPECT_EQ(verdict_text(some_results().levels),
              "verdict: FAIL\ndrain: node07 (bits)\nSlurm: --exclude=node07\nPBS:   pbsnodes -o node07");
    EXPECT_EQ(verdict_text({some_results().levels[0]}), "verdict: PASS");
    EXPECT_EQ(verdict_of({some_results().levels[2]}), Outcome::skip);
}

TEST(Accept, JsonHasTheVerdictAndEachLevel) {
    const nlohmann::json j = nlohmann::json::parse(acceptance_json(some_results()));
    EXPECT_EQ(j["verdict"], "FAIL");
    EXPECT_EQ(j["drain"], nlohmann::json({"node07"}));
    ASSERT_EQ(j["levels"].size(), 3u);
    EXPECT_EQ(j["levels"][1]["blamed"][0]["reason"], "wrong <bits> & \"more\"");
    EXPECT_EQ(j["levels"][2]["outcome"], "SKIP");
}

TEST(Accept, JUnitIsReadByAParserOfXml) {
    const TempDir dir;
    write_file(dir.path("junit.xml"), acceptance_junit(some_results()));
    write_file(dir.path("read.py"), R"(
import sys, xml.etree.ElementTree as tree
suite = tree.parse(sys.argv[1]).getroot().find("testsuite")
print(suite.get("tests"), suite.get("failures"), suite.get("skipped"))
for case in suite:
    print(case.get("name"), [e.tag for e in case], (case.findtext("failure") or "").strip())
)");
    EXPECT_EQ(run("/usr/bin/python3 " + dir.path("read.py") + " " + dir.path("junit.xml")).out,
              "3 1 1\nsums ['system-out'] \nbits ['failure', 'system-out'] node07, GPU 3: wrong <bits> & \"more\"\n"
              "input ['skipped', 'system-out'] \n");
}

TEST(Accept, WhatHasNotRunYetIsNoPass) {
    Acceptance a = some_results();
    a.levels.resize(1);
    a.not_run = {"bits"};
    EXPECT_EQ(nlohmann::json::parse(acceptance_json(a))["verdict"], "UNFINISHED");
    EXPECT_NE(acceptance_junit(a).find("tests=\"2\" failures=\"0\" errors=\"1\""), std::string::npos);
    EXPECT_NE(acceptance_prometheus(a).find("convoy_accept_finished 0\n"), std::string::npos);
}

TEST(Accept, PrometheusHasALineForEachLevelThatRan) {
    const std::string text = acceptance_prometheus(some_results());
    EXPECT_NE(text.find("convoy_accept_level_passed{level=\"sums\"} 1\n"), std::string::npos);
    EXPECT_NE(text.find("convoy_accept_level_passed{level=\"bits\"} 0\n"), std::string::npos);
    EXPECT_EQ(text.find("passed{level=\"input\"}"), std::string::npos);
    EXPECT_NE(text.find("convoy_accept_drain{host=\"node07\"} 1\n"), std::string::npos);
}

// promtool reads a file as Prometheus does, and checks names, types and help texts.
TEST(Accept, PromtoolHasNothingToSayAboutThePrometheusFile) {
    const std::string own = ".deps/promtool/promtool", promtool = std::filesystem::exists(own) ? own : "promtool";
    if (run("command -v " + promtool).code != 0) GTEST_SKIP() << "no promtool; bash .ci/deps.sh install ci";
    const TempDir dir;
    const auto check = [&](const std::string& text) {
        write_file(dir.path("accept.prom"), text);
        const Finished f = run(promtool + " check metrics <" + dir.path("accept.prom"));
        return std::to_string(f.code) + f.out + f.err;
    };
    Acceptance odd = some_results();
    odd.levels[1].blamed[0].host = R"(a "node" \ of somebody)";
    Acceptance begun = some_results();
    begun.levels.clear();
    begun.not_run = {"sums"};
    for (const Acceptance& a : {some_results(), odd, begun}) EXPECT_EQ(check(acceptance_prometheus(a)), "0");
    std::string wrong = acceptance_prometheus(odd);
    wrong.erase(wrong.find('\\'), 1);
    EXPECT_NE(check(wrong).find("parsing error"), std::string::npos);
}

}  // namespace
}  // namespace convoy::test
