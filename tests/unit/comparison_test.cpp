// convoy report of several runs: which options become columns, which run comes first, in every
// format, and the size of images that a model sees.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/summary.h"
#include "tests/unit/report_runs.h"

namespace convoy::test {
namespace {

class Comparison : public ReportTest {
protected:
    /// Writes a training that recorded `options`; without an evaluation if `accuracy` is NaN.
    void write_run(const std::string& name, const std::string& options, double accuracy,
                   const std::string& images = "28x28x1") {
        fs::create_directories(dir_.path(name));
        Metrics m(dir_.path(name));
        m.run_attribute("model", std::string("resnet18"));
        m.run_attribute("image size", images);
        m.run_attribute("global batch (--batch-size)", std::string("60"));
        m.run_attribute("device kind", std::string("cpu"));
        m.run_attribute("configuration", options);
        m.add(RankRow{0, "node", "CPU", 4});
        m.add(EpochRow{1, 120, 4.0, 30.0});
        if (!std::isnan(accuracy)) m.add(EvalRow{2, 1, 1.9, accuracy, 0.5});
        m.event(2, "done", "");
        m.publish();
    }
    /// Returns the cells of the first table of Markdown by row; the header comes first.
    static std::vector<std::vector<std::string>> cells(const std::string& markdown) {
        std::vector<std::vector<std::string>> rows;
        std::istringstream lines(markdown);
        for (std::string line; std::getline(lines, line) && line.starts_with("|");) {
            if (line.starts_with("|---")) continue;
            std::istringstream row(line.substr(1));
            rows.emplace_back();
            for (std::string cell; std::getline(row, cell, '|');) {
                const size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
                rows.back().push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
            }
        }
        return rows;
    }
    static bool has(const std::vector<std::string>& words, const std::string& word) {
        return std::find(words.begin(), words.end(), word) != words.end();
    }
    /// Returns the options that differ, from the JSON.
    nlohmann::json differing(const std::string& runs) {
        const Finished f = report("--format json " + runs);
        EXPECT_EQ("", failure(f));
        auto all = nlohmann::json::array();
        for (const auto& run : nlohmann::json::parse(f.out)) all.push_back(run.at("options_that_differ"));
        return all;
    }
};

TEST_F(Comparison, EachOptionThatDiffersIsAColumnInEveryFormat) {
    const std::string same = "model = resnet18\nprecision = f32\nseed = 7\n";
    write_run("a", same + "lr = 0.1\nflip = true\n# output = a\n", 0.5);
    write_run("b", same + "lr = 0.3\nflip = true\n# output = b\n", 0.75);
    write_run("c", same + "lr = 0.01\nflip = false\n# output = c\n", 0.625);
    const std::string runs = "a b c";

    const auto j = nlohmann::json::parse(report("--format json " + runs).out);
    ASSERT_EQ(j.size(), 3u);
    const std::vector<std::array<std::string, 3>> expected = {
        {"b", "0.3", "true"}, {"c", "0.01", "false"}, {"a", "0.1", "true"}};
    const auto markdown = cells(report("--format markdown " + runs).out);
    std::istringstream csv(report("--format csv " + runs).out), text(report(runs).out);
    std::string csv_line, text_line;
    std::getline(csv, csv_line);
    std::getline(text, text_line);
    EXPECT_TRUE(csv_line.starts_with("run,model,precision,lr,flip,ranks,")) << csv_line;
    EXPECT_EQ(text_line, "run    lr   flip  best (%)  accuracy (%)  epochs  training (s)  images/s  ranks");
    EXPECT_TRUE(has(markdown.at(0), "lr") && has(markdown.at(0), "flip") && !has(markdown.at(0), "seed") &&
                !has(markdown.at(0), "output"));
    for (size_t i = 0; i < expected.size(); ++i) {
        const auto& [run, lr, flip] = expected[i];
        EXPECT_EQ(j.at(i).at("run"), run);
        EXPECT_EQ(j.at(i).at("options_that_differ"),
                  nlohmann::json::parse(R"({"lr":")" + lr + R"(","flip":")" + flip + R"("})"));
        EXPECT_EQ(markdown.at(i + 1).at(0), run);
        EXPECT_TRUE(has(markdown.at(i + 1), lr) && has(markdown.at(i + 1), flip));
        std::getline(csv, csv_line);
        EXPECT_TRUE(csv_line.starts_with(run + ",resnet18,f32," + lr + "," + flip + ",1,")) << csv_line;
        std::getline(text, text_line);
        std::istringstream words(text_line);
        std::string said[3];
        words >> said[0] >> said[1] >> said[2];
        EXPECT_TRUE(said[0] == run && said[1] == lr && said[2] == flip) << text_line;
    }
    std::getline(text, text_line);
    EXPECT_EQ(text_line, "") << "the table stands before what is said of each run";
}

// Each row is as wide as the longest value of each column.
TEST_F(Comparison, LongValuesAreShortened) {
    write_run("a", "lr = 0.1\ninit-from = " + std::string(5000, 'x') + "\n" + std::string(5000, 'o') + " = 1\n", 0.5);
    write_run("b", "lr = 0.2\n", 0.25);
    const std::string text = report("a b").out;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LT(line.size(), 600u) << line;
    EXPECT_NE(text.find(std::string(190, 'x')), std::string::npos);
    EXPECT_NE(differing("a b").dump().find(std::string(5000, 'x')), std::string::npos) << "JSON has all of it";
}

TEST_F(Comparison, OneRunHasNoTableAndNoOptions) {
    write_run("a", "lr = 0.1\n", 0.5);
    EXPECT_TRUE(report("a").out.starts_with("a\n  model "));
    EXPECT_EQ(differing("a"), nlohmann::json::parse("[{}]"));
    EXPECT_EQ(cells(report("--format markdown a").out).at(0).at(3), "ranks");
}

TEST_F(Comparison, RunsWithoutAnEvaluationComeLastInTheOrderGiven) {
    write_run("none2", "lr = 1\n", NAN);
    write_run("low", "lr = 2\n", 0.25);
    write_run("none1", "lr = 3\n", NAN);
    write_run("high", "lr = 4\n", 0.5);
    fs::create_directories(dir_.path("oom"));
    write_file(dir_.path("oom/oom"), "");
    std::string order;
    for (const auto& run : nlohmann::json::parse(report("--format json none2 oom low none1 high").out))
        order += run["run"].get<std::string>() + " ";
    EXPECT_EQ(order, "high low none2 oom none1 ");
    EXPECT_EQ(cells(report("--format markdown low oom").out).at(2).at(0), "oom");
}

// Versions before an option existed did not record it, and behaved as its default does.
TEST_F(Comparison, AnOptionThatARunDidNotRecordCountsAsItsDefault) {
    write_run("old", "lr = 0.1\n", 0.5);
    write_run("new", "lr = 0.1\nmixup = 0\n", 0.5);
    write_run("mixed", "lr = 0.1\nmixup = 0.2\n", 0.75);
    EXPECT_EQ(differing("old new"), nlohmann::json::parse("[{},{}]"));
    EXPECT_EQ(differing("old mixed"), nlohmann::json::parse(R"([{"mixup":"0.2"},{"mixup":""}])"));
    EXPECT_EQ(cells(report("--format markdown old mixed").out).at(2).at(3), "-");
}

TEST_F(Comparison, HowARunWasStartedAndShownIsNotCompared) {
    write_run("a", "lr = 0.1\nresume = none\nlog-interval = 10\n# time-limit = \n# log-dir = \n", 0.5);
    write_run("b", "lr = 0.1\nresume = auto\nlog-interval = 1\ntime-limit = 1h\n# log-dir = logs\n", 0.5);
    EXPECT_EQ(differing("a b"), nlohmann::json::parse("[{},{}]"));
}

// Columns of these names exist already. The existing column `epochs` counts completed epochs.
TEST_F(Comparison, AColumnIsNotThereTwice) {
    write_run("a", "model = resnet18\nprecision = f32\nepochs = 3\n", 0.5);
    write_run("b", "model = resnet18\nprecision = bf16\nepochs = 5\n", 0.25);
    const auto rows = cells(report("--format markdown a b").out);
    EXPECT_EQ(std::count(rows.at(0).begin(), rows.at(0).end(), "precision"), 1);
    EXPECT_EQ(std::count(rows.at(0).begin(), rows.at(0).end(), "epochs"), 1);
    EXPECT_EQ(rows.at(0).at(3), "--epochs");
    EXPECT_EQ(rows.at(1).at(3), "3");
    EXPECT_EQ(differing("a b").at(0), nlohmann::json::parse(R"({"precision":"f32","epochs":"3"})"));
}

TEST_F(Comparison, WhatAFileSaysCannotBreakATable) {
    write_run("a", "data = x|y\nlr = 1\x1b[2J\n", 0.5);
    write_run("b", "data = \"q\",z\nlr = 2\n", 0.25);
    EXPECT_EQ(report("a b").out.find('\x1b'), std::string::npos);
    EXPECT_NE(report("--format markdown a b").out.find("x\\|y"), std::string::npos);
    EXPECT_NE(report("--format csv a b").out.find("\"\"\"q\"\",z\""), std::string::npos);
}

// The largest picture is 238 by 273; the model sees squares.
TEST_F(Comparison, TheSizeOfImagesIsThatWhichTheModelSees) {
    const std::pair<std::string, std::string> sizes[] = {{"image-size = 64\n", "64x64x3"},
                                                         {"image-size = 160:0,192:10,224:20\n", "224x224x3"},
                                                         {"# image-size = \n", "238x273x3"},
                                                         {"lr = 1\n", "238x273x3"},
                                                         {"image-size = 238x273x3\n", "238x273x3"}};
    for (const auto& [option, seen] : sizes) {
        write_run("run", "precision = f32\nstem = auto\n" + option, 0.5, "238x273x3");
        EXPECT_EQ(summarise(dir_.path("run")).image_size, seen) << option;
        EXPECT_NE(report("run").out.find("images of " + seen + ";"), std::string::npos) << option;
        EXPECT_EQ(nlohmann::json::parse(report("--format json run").out)[0]["image_size"], seen) << option;
        const auto scaling = nlohmann::json::parse(report("--scaling --format json run").out)[0];
        EXPECT_EQ(scaling["image_size"], seen) << option;
        EXPECT_EQ(scaling["stem"], seen == "64x64x3" ? "cifar" : "imagenet") << "the stem is by that size";
        fs::remove_all(dir_.path("run"));
    }
}

}  // namespace
}  // namespace convoy::test
