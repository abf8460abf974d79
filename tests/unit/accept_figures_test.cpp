// The figures of an acceptance test as numbers: in accept.json, from which a killed test continues,
// in metrics.h5 and for Prometheus.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "accept/figures_file.h"
#include "accept/reports.h"
#include "accept/speed_expected.h"
#include "data/hdf5.h"
#include "plan/all_reduce_time.h"
#include "report/expected.h"
#include "tests/support/support.h"
#include "tests/unit/made_up_acceptance.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {

/// Returns the only figure of this name, host and peer; NaN if there is none.
double value(const LevelResult& r, const std::string& name, const std::string& host = "",
             const std::string& peer = "") {
    double found = NAN;
    for (const Figure& f : figures_named(r, name))
        if (f.host == host && f.peer == peer) found = f.value;
    return found;
}

TEST(AcceptFigures, AreWhatWasMeasured) {
    const Acceptance a = made_up_acceptance();
    EXPECT_EQ(value(a.levels[0], "nodes"), 4);
    EXPECT_EQ(value(a.levels[1], "pair_bandwidth", "n0", "n1"), 2e9);
    EXPECT_EQ(value(a.levels[1], "pair_bandwidth", "n2", odd_host), 15e9);
    EXPECT_EQ(figures_named(a.levels[1], "pair_bandwidth").size(), 6u);
    EXPECT_EQ(value(a.levels[1], "inside_bandwidth", "n1"), 21e9);
    const std::vector<Figure> sizes = figures_named(a.levels[1], "bandwidth");
    ASSERT_EQ(sizes.size(), 4u);
    EXPECT_EQ(sizes[0].at, 8192);
    EXPECT_EQ(sizes[3].value, 8e9);
    const std::vector<Figure> alone = figures_named(a.levels[3], "alone");
    ASSERT_EQ(alone.size(), 8u);
    EXPECT_EQ(alone[5].rank, 5);
    EXPECT_EQ(alone[5].host, "n2");
    EXPECT_EQ(alone[5].value, 500);
    EXPECT_EQ(figures_named(a.levels[3], "alone_median")[0].value, 1002.5) << "of 500, 1000 to 1004, 1006 and 1007";
    EXPECT_EQ(figures_named(a.levels[3], "temperature")[7].value, 57);
    EXPECT_EQ(value(a.levels[4], "read_at_once", "n1"), 1e9);
    EXPECT_EQ(value(a.levels[4], "read_limit"), 2e9) << "half of the median";
    EXPECT_EQ(value(a.levels[4], "read_alone", "n0"), 8e9);
    EXPECT_EQ(figures_named(a.levels[5], "speed").size(), 16u);
    EXPECT_EQ(figures_named(a.levels[5], "clock")[1].value, 1.3e9);
}

TEST(AcceptFigures, WhatIsNotKnownIsLeftOut) {
    LevelResult r{.level = "speed"};
    r.add({.name = "clock", .unit = "Hz", .value = NAN});
    r.add({.name = "clock", .unit = "Hz", .value = INFINITY});
    EXPECT_TRUE(r.figures.empty());
}

TEST(AcceptFigures, JsonIsReadAsItWasWritten) {
    const Acceptance a = made_up_acceptance();
    const std::string text = acceptance_json(a);
    EXPECT_EQ(acceptance_json(read_acceptance(text, "accept.json")), text);
    const nlohmann::json j = nlohmann::json::parse(text);
    const nlohmann::json& figure = j["levels"][1]["figures"][0];
    EXPECT_EQ(figure["name"], "inside_bandwidth");
    EXPECT_EQ(figure["unit"], "bytes/s");
    EXPECT_EQ(figure["value"], 20e9);
    EXPECT_EQ(figure["host"], "n0");
    EXPECT_FALSE(figure.contains("rank"));
    EXPECT_EQ(j["levels"][0]["facts"][3]["host"], odd_host);
    EXPECT_EQ(j["levels"][0]["facts"][3]["facts"]["driver"], "570.1");
}

TEST(AcceptFigures, DamagedResultsAreRefusedWithFileAndKey) {
    const nlohmann::json good = nlohmann::json::parse(acceptance_json(made_up_acceptance()));
    const auto problem = [&](const std::string& place, const nlohmann::json& value, std::vector<std::string> words) {
        nlohmann::json bad = good;
        bad[nlohmann::json::json_pointer(place)] = value;
        words.emplace_back("a/accept.json");
        return problem_of_error(Exit::bad_input, words, [&] { read_acceptance(bad.dump(), "a/accept.json"); });
    };
    EXPECT_EQ("", problem("/format", "other", {"is no accept.json"}));
    EXPECT_EQ("", problem("/format_version", 2, {"'format_version'"}));
    EXPECT_EQ("", problem("/hosts", "n0", {"'hosts' is no list"}));
    EXPECT_EQ("", problem("/hosts/1", 7, {"'hosts' is no text"}));
    EXPECT_EQ("", problem("/ranks", -1, {"'ranks'"}));
    EXPECT_EQ("", problem("/levels", 1, {"'levels' is no list"}));
    EXPECT_EQ("", problem("/levels/2", 1, {"levels[2]", "is no object"}));
    EXPECT_EQ("", problem("/levels/2/level", "sums", {"levels[2]", "there twice"}));
    EXPECT_EQ("", problem("/levels/2/level", "../x", {"levels[2]", "'level' is no name of a level"}));
    EXPECT_EQ("", problem("/levels/2/outcome", "GOOD", {"levels[2]", "'outcome'"}));
    EXPECT_EQ("", problem("/levels/2/seconds", "long", {"levels[2]", "'seconds' is no number"}));
    EXPECT_EQ("", problem("/levels/1/blamed/0/drain", 1, {"levels[1]: blamed[0]", "'drain'"}));
    EXPECT_EQ("", problem("/levels/1/figures/0/name", "a/b", {"levels[1]: figures[0]", "'name'"}));
    const std::string long_unit(41, 'm');
    EXPECT_EQ("", problem("/levels/1/figures/0/unit", long_unit, {"levels[1]: figures[0]", "'unit' is longer than"}));
    EXPECT_EQ("", problem("/levels/1/figures/0/value", nullptr, {"levels[1]: figures[0]", "'value' is no number"}));
    EXPECT_EQ("", problem("/levels/0/facts/0/facts", "x", {"levels[0]: facts[0]", "'facts' is no object"}));
    for (const char* text : {"", "{", "[]", "{\"format\": 1}", "\x7f\x45LF"})
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {"a/accept.json: is no accept.json"},
                                       [&] { read_acceptance(text, "a/accept.json"); }))
            << text;
    const std::string deep = "{\"format\": " + std::string(300'000, '[') + std::string(300'000, ']') + "}";
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"a/accept.json: is no accept.json"},
                                   [&] { read_acceptance(deep, "a/accept.json"); }));
    nlohmann::json odd = good;
    odd["levels"][2]["figure"] = "a\x1b[2J";
    EXPECT_EQ(read_acceptance(odd.dump(), "x").levels[2].figure, "a\\x1b[2J") << "it would clear the terminal";
}

// Such files took minutes, or a hundred times their size in memory and in metrics.h5.
TEST(AcceptFigures, ResultsThatNoTestWritesAreRefusedBeforeTheyTakeTime) {
    const std::string good = acceptance_json(made_up_acceptance());
    const auto problem = [&](const char* place, const nlohmann::json& value, const std::vector<std::string>& words) {
        nlohmann::json bad = nlohmann::json::parse(good);
        bad[nlohmann::json::json_pointer(place)] = value;
        return problem_of_error(Exit::bad_input, words, [&] { read_acceptance(bad.dump(), "a.json"); });
    };
    nlohmann::json facts, figures;
    for (int i = 0; i <= 1000; ++i) facts["fact " + std::to_string(i)] = "";
    EXPECT_EQ("", problem("/levels/0/facts/0/facts", facts, {"a.json: is no accept.json"}));
    for (int i = 0; i <= 64; ++i)
        figures.push_back({{"name", std::string(size_t(i % 26) + 1, char('a' + i / 26))}, {"unit", "1"}, {"value", 1}});
    EXPECT_EQ("", problem("/levels/2/figures", figures, {"a.json: levels[2]: figures[64]: 'name'", "too many"}));
    figures.erase(64);
    EXPECT_EQ("no error", problem("/levels/2/figures", figures, {}));
}

// Their names are printed in commands, which users paste into a shell.
TEST(AcceptFigures, LevelsAboutOtherHostsAreNotContinued) {
    Acceptance now = made_up_acceptance();
    now.levels.clear();
    now.not_run = level_names();
    const auto problem = [&](const auto& change, const std::vector<std::string>& words) {
        Acceptance earlier = made_up_acceptance(), unchanged = now;
        change(earlier.levels[0]);
        return problem_of_error(Exit::bad_input, words, [&] { continue_from(earlier, "a.json", {}, unchanged); });
    };
    const std::string other = "n0;reboot";
    EXPECT_EQ("", problem([&](LevelResult& r) { r.blamed[0].host = other; }, {"a.json", "inventory", other}));
    EXPECT_EQ("", problem([&](LevelResult& r) { r.facts[1].host = other; }, {"a.json", "inventory", other}));
    EXPECT_EQ("", problem([&](LevelResult& r) { r.figures[0].host = other; }, {"a.json", "inventory", other}));
    EXPECT_EQ("", problem([&](LevelResult& r) { r.figures[0].peer = other; }, {"a.json", "inventory", other}));
    EXPECT_EQ("", problem([&](LevelResult& r) { r.facts.resize(17, r.facts[0]); }, {"a.json", "more devices"}));
    Acceptance continued = now;
    continue_from(made_up_acceptance(), "a.json", {}, continued);
    EXPECT_EQ(continued.levels.size(), 6u);
}

TEST(AcceptFigures, AnOutlineHasNamesAndOutcomes) {
    const Acceptance a = made_up_acceptance(), outline = read_acceptance(acceptance_json(outline_of(a)), "a.json");
    ASSERT_EQ(outline.levels.size(), a.levels.size());
    for (size_t i = 0; i < a.levels.size(); ++i) {
        EXPECT_EQ(outline.levels[i].level, a.levels[i].level);
        EXPECT_EQ(outline.levels[i].outcome, a.levels[i].outcome);
        EXPECT_TRUE(outline.levels[i].figures.empty() && outline.levels[i].facts.empty());
    }
}

TEST(AcceptFigures, ALevelThatEndedIsTakenFromTheSameTestOnly) {
    const Acceptance all = made_up_acceptance();
    Acceptance earlier = all, now = all;
    earlier.levels.resize(2);
    earlier.not_run = {"bits", "speed"};
    now.levels.clear();
    now.began = "2027-01-01T00:00:00Z";
    now.not_run = {"inventory", "sums", "bits", "speed"};
    Acceptance continued = now;
    continue_from(earlier, "a.json", {}, continued);
    EXPECT_EQ(continued.not_run, std::vector<std::string>({"bits", "speed"}));
    ASSERT_EQ(continued.levels.size(), 2u);
    EXPECT_EQ(continued.levels[1].figure, earlier.levels[1].figure);
    EXPECT_EQ(continued.began, all.began);
    Acceptance once_more = now;
    continue_from(earlier, "a.json", {"sums"}, once_more);
    EXPECT_EQ(once_more.not_run, std::vector<std::string>({"sums", "bits", "speed"}));

    const auto problem = [&](const auto& change, const std::vector<std::string>& words) {
        Acceptance other = earlier, unchanged = now;
        change(other);
        return problem_of_error(Exit::usage, words, [&] { continue_from(other, "a.json", {}, unchanged); });
    };
    EXPECT_EQ("",
              problem([](Acceptance& a) { a.commit = "def"; }, {"a.json: is of convoy 1.2 (def), this is 1.2 (abc)"}));
    EXPECT_EQ("", problem([](Acceptance& a) { a.hosts.pop_back(); }, {"on 7 ranks, not 8"}));
    EXPECT_EQ("", problem([](Acceptance& a) { a.hosts[2] = "m1"; }, {"had rank 2 on m1, not n1"}));
    EXPECT_EQ("", problem([](Acceptance& a) { a.options[0].second = "long"; }, {"with --level long, not quick"}));
    EXPECT_EQ("", problem([](Acceptance& a) { a.options[2].second = "5"; }, {"with --minutes 5, not nothing"}));
}

TEST(AcceptFigures, Hdf5HasTheNumbersOfTheJson) {
    const TempDir dir;
    const Acceptance a = made_up_acceptance();
    const std::string path = dir.path("metrics.h5");
    const std::vector<unsigned char> bytes = acceptance_metrics(a, path);
    write_file(path, std::string(bytes.begin(), bytes.end()));
    write_file(dir.path("accept.json"), acceptance_json(a));
    const h5::Handle file = h5::open(path);
    const h5::Handle set = h5::open_dataset(file, "sums/pair_bandwidth/value", path);
    double first = 0;
    h5::read_rows(set, H5T_NATIVE_DOUBLE, 0, 1, &first, path);
    EXPECT_EQ(first, 2e9);
    EXPECT_FALSE(h5::has(file, "sums/pair_bandwidth/rank"));
    const std::string python = python_with("h5py");
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py";
    write_file(dir.path("compare.py"), R"(import h5py, json, sys
file, results, figures = h5py.File(sys.argv[1] + "/metrics.h5"), json.load(open(sys.argv[1] + "/accept.json")), 0
assert file.attrs["verdict"] == results["verdict"] and file.attrs["ranks"] == results["ranks"]
assert set(file) == {level["level"] for level in results["levels"]}, set(file)
for level in results["levels"]:
    group = file[level["level"]]
    assert group.attrs["outcome"] == level["outcome"] and group.attrs["seconds"] == level["seconds"]
    by_name = {}
    for figure in level["figures"]:
        by_name.setdefault(figure["name"], []).append(figure)
    assert set(group) == set(by_name), (set(group), set(by_name))
    for name, rows in by_name.items():
        columns = group[name]
        keys = {key for row in rows for key in row} - {"name", "unit", "at_unit"}
        assert set(columns) == keys, (name, set(columns), keys)
        assert columns["value"].attrs["units"] == rows[0]["unit"]
        if "at" in keys:
            assert columns["at"].attrs["units"] == rows[0]["at_unit"]
        for key in keys:
            column = columns[key].asstr()[...] if key in ("host", "peer") else columns[key][...]
            assert list(column) == [row[key] for row in rows], (name, key)
        figures += len(rows)
print(figures)
)");
    const Finished f = run(python + " " + dir.path("compare.py") + " " + dir.path());
    size_t figures = 0;
    for (const LevelResult& r : a.levels) figures += r.figures.size();
    EXPECT_GT(figures, 100u);
    EXPECT_EQ(f.out, std::to_string(figures) + "\n") << f.err;
}

TEST(AcceptFigures, PrometheusHasAGaugeForEach) {
    const std::string text = acceptance_prometheus(made_up_acceptance());
    for (const std::string line :
         {"# TYPE convoy_accept_sums_pair_bandwidth_bytes_per_second gauge",
          "convoy_accept_sums_pair_bandwidth_bytes_per_second{host=\"n0\",peer=\"n1\"} 2e+09",
          "convoy_accept_sums_bandwidth_bytes_per_second{bytes=\"65536\"} 1e+09",
          "convoy_accept_speed_alone_images_per_second{host=\"n2\",rank=\"5\"} 500",
          "convoy_accept_speed_together_images_per_second 6000", "convoy_accept_bits_devices 8",
          "convoy_accept_input_read_at_once_bytes_per_second{host=\"n3<b>&\\\"'\"} 4e+09"})
        EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << line << "\n" << text;
    // A curve over time has its last point only.
    EXPECT_NE(text.find("endurance_speed_steps_per_second{host=\"n0\",rank=\"0\"} 99\n"), std::string::npos);
    EXPECT_EQ(text.find("} 100\n"), std::string::npos);
}

TEST(AcceptFigures, ACurveKeepsEvenlySpreadSamples) {
    EnduranceCurve curve(16);
    for (int i = 0; i < 1000; ++i) curve.add({.at = double(i)});
    const std::vector<EnduranceSample>& kept = curve.samples();
    ASSERT_GE(kept.size(), 8u);
    ASSERT_LE(kept.size(), 16u);
    const double gap = kept[1].at;
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(kept[i].at, double(i) * gap);
    EXPECT_GT(kept.back().at + gap, 999) << "the last samples are there, too";
}

/// A cluster of four nodes with two ranks, whose all-reduces take 1 ms for any size from 8 bytes.
Cluster measured_cluster() {
    Cluster c{.name = "here", .nodes = 4, .ranks_per_node = 2, .node_bandwidth = 20e9};
    c.adapters = 1;
    c.adapter_bandwidth = 10e9;
    for (const int nodes : {1, 4})
        for (const double bytes : {8.0, 1e9}) c.all_reduces.push_back({nodes, 2, bytes, 1e-3});
    return c;
}

TEST(AcceptFigures, ExpectedSumsAreThoseOfTheClusterFile) {
    const ExpectedSums e = expected_sums(measured_cluster(), made_up_sums(), 4 << 20, 2, false);
    EXPECT_NEAR(e.inside, (4 << 20) * (2.0 * 1 / 2) / 1e-3, 1) << "of 2 ranks in 1 ms";
    EXPECT_NEAR(e.all, (4 << 20) * (2.0 * 7 / 8) / 1e-3, 1) << "of 8 ranks in 1 ms";
    ASSERT_EQ(e.by_size.size(), 4u);
    EXPECT_NEAR(e.by_size[0].second, 8192 * (2.0 * 7 / 8) / 1e-3, 1e-3);
    const LevelResult r = judge_sums(made_up_sums(), 4 << 20, e);
    EXPECT_NE(r.expected.find("7.34 GB/s by here, of which this is 109 %"), std::string::npos) << r.expected;
    EXPECT_EQ(figures_named(r, "expected_bandwidth").size(), 4u);
    Cluster unknown = measured_cluster();
    unknown.all_reduces.clear();
    EXPECT_EQ(expected_sums(unknown, made_up_sums(), 4 << 20, 2, false).all, 0) << "the model is NCCL's, not MPI's";
    EXPECT_GT(expected_sums(unknown, made_up_sums(), 4 << 20, 2, true).all, 0);
}

TEST(AcceptFigures, WhatIsLostAgainstAPredictionAddsUp) {
    const SpeedCase c{.model = "mnist-conv", .side = 28, .batch = 64};
    const std::vector<RankSpeed> ranks = made_up_speeds();
    const SpeedTogether together{.images_per_second = 3000, .data_seconds = 0.002};
    const SpeedExpectation e = expected_speed(c, ranks, together, 4, measured_cluster());
    const double measured = 64.0 * 8 / 3000, predicted = 64.0 * 8 / e.images_per_second;
    EXPECT_NEAR(e.compute + e.slowest_rank + e.input + e.sums, measured - predicted, 1e-9);
    // The slowest of 8 ranks of 1,000 images/s gives 490 of them; others give about 993.5.
    EXPECT_NEAR(e.slowest_rank, 64 / 490.0 - 64 / 993.5, 0.003);
    EXPECT_EQ(e.input, 0.002);
    LevelResult r{.level = "speed"};
    add_expectation(e, together, "here", r);
    EXPECT_EQ(r.outcome, Outcome::warn);
    EXPECT_NE(r.figure.find("here predicts: most is lost in the slowest rank, "), std::string::npos) << r.figure;
    EXPECT_NEAR(value(r, "efficiency"), 3000 / e.images_per_second, 1e-12);
    LevelResult fast{.level = "speed"};
    add_expectation(e, {.images_per_second = e.images_per_second}, "here", fast);
    EXPECT_EQ(fast.outcome, Outcome::pass);
    EXPECT_EQ(fast.figure.find("lost"), std::string::npos) << fast.figure;
}

// The file's time is 20 ms for 64 images of resnet50 in their usual size.
TEST(AcceptFigures, AKnownStepOfTheModelIsThePrediction) {
    Cluster c = measured_cluster();
    c.nodes = c.ranks_per_node = 1;
    c.steps = {{.model = "resnet50", .precision = "f16", .fixed = 9, .per_sample = 9},
               {.model = "resnet50", .precision = "f32", .fixed = 0.004, .per_sample = 0.00025}};
    const StepModel usual = model_of_known_step(c.steps[1], build_model(usual_model("resnet50")).flops_per_image());
    EXPECT_NEAR(usual.alone.at(64), 0.02, 1e-12);
    const std::vector<RankSpeed> one = {made_up_speeds()[0]};
    const SpeedCase of_224{.model = "resnet50", .side = 224, .batch = 64};
    const SpeedExpectation e = expected_speed(of_224, one, {.images_per_second = 1000}, 1, c);
    EXPECT_NEAR(e.images_per_second, 64 / 0.02, 0.01 * 64 / 0.02) << "of 10 classes instead of 1,000";
}

}  // namespace
}  // namespace convoy::test
