// Pictures of files of a megabyte that would keep a drawing program busy for minutes. Run from the
// repository's root.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "run/metrics.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;
using Json = nlohmann::json;

class PlotSizes : public testing::Test {
protected:
    void SetUp() override {
        if (run("/usr/bin/python3 -c 'import h5py, matplotlib, numpy'").code != 0)
            GTEST_SKIP() << "/usr/bin/python3 lacks h5py or matplotlib";
    }
    /// Draws a picture in at most half a minute.
    Finished draw(const std::string& words) const {
        return run(with_limit("/usr/bin/python3 src/plot/" + words + " --out " + picture_, 30));
    }
    void expect_drawn(const std::string& words) const {
        EXPECT_EQ("", failure(draw(words))) << words;
        EXPECT_EQ(read_file(picture_).substr(1, 3), "PNG");
        fs::remove(picture_);
    }
    static Json cell(const std::string& model, int ranks) {
        return {{"out_of_memory", false}, {"samples_per_second", ranks},
                {"source", "Convoy"},     {"model", model},
                {"precision", "f32"},     {"image_size", "8x8"},
                {"device", "gpu"},        {"batch", 1},
                {"ranks", ranks},         {"efficiency", 1}};
    }
    std::string written(const std::string& name, const Json& json) const {
        write_file(dir_.path(name), json.dump());
        return dir_.path(name);
    }

    TempDir dir_;
    const std::string picture_ = dir_.path("a.png");
};

TEST_F(PlotSizes, ThousandsOfCellsHaveFewTicksAndLines) {
    Json ranks = Json::array(), models = Json::array();
    for (int n = 1; n <= 20000; ++n) ranks.push_back(cell("m", n));
    for (int n = 1; n <= 5000; ++n) models.push_back(cell(std::to_string(n), 1));
    expect_drawn("plot.py --scaling " + written("ranks.json", ranks));
    const Finished f = draw("plot.py --scaling " + written("models.json", models));
    EXPECT_EQ(f.code, 3);
    EXPECT_EQ(f.err, "plot.py: 5,000 lines are too many to draw, at most 100; draw fewer models at once\n");
}

TEST_F(PlotSizes, FiguresOfCellsAreNumbers) {
    const auto expect_refused = [&](const Json& cells, const std::string& words) {
        const Finished f = draw("plot.py --scaling " + written("cells.json", cells));
        EXPECT_EQ(f.code, int(Exit::bad_input));
        EXPECT_EQ(f.err.find("plot.py: " + dir_.path("cells.json") + ": is not what "), 0u) << f.err;
        EXPECT_NE(f.err.find(words), std::string::npos) << f.err;
        EXPECT_EQ(count(f.err, "\n"), 1) << f.err;
    };
    const std::pair<std::string, Json> wrong[] = {{"efficiency", Json::array({1, 2})},
                                                  {"efficiency", "0.9"},
                                                  {"ranks", "8"},
                                                  {"model", 8},
                                                  {"batch", Json::object()}};
    for (const auto& [name, value] : wrong) {
        Json cells = {cell("m", 1)};
        cells[0][name] = value;
        expect_refused(cells, "'" + name + "' is not a ");
    }
    for (const Json& cells : {Json::array({1}), Json::array({Json::array()}), Json::object({{"a", 1}})})
        expect_refused(cells, "");
}

TEST_F(PlotSizes, ThousandsOfRestartsAreOneSetOfLines) {
    for (const char* name : {"one", "other"}) {
        fs::create_directories(dir_.path(name));
        Metrics m(dir_.path(name));
        for (int step = 1; step <= 3; ++step) m.add(TrainRow{step, 1, 2.0 / step, 0.5, 0.1, 0.02, 0.001, 0.004});
        for (int i = 0; i < 20000; ++i) m.event(i, "restart", "1 rank");
        m.publish();
    }
    expect_drawn("plot.py --difference " + dir_.path("one") + " " + dir_.path("other"));
}

TEST_F(PlotSizes, ATimelineMayHaveLongTextsAndManyAllReduces) {
    Json events = {{{"ph", "M"}, {"name", "process_name"}, {"pid", 0}, {"args", {{"name", std::string(1 << 20, 'x')}}}},
                   {{"ph", "X"}, {"name", "a"}, {"cat", "conv forward"}, {"pid", 0}, {"ts", 0}, {"dur", 1000}}};
    for (int i = 0; i < 20000; ++i)
        for (const char* phase : {"b", "e"}) events.push_back({{"ph", phase}, {"id", i}, {"pid", 0}, {"ts", i}});
    const Json about = {{"threads", 1},
                        {"bench", std::string(1 << 20, 'b')},
                        {"precision", "f32"},
                        {"image_size", "8x8"},
                        {"batch_per_rank", 1}};
    expect_drawn("timeline.py " + written("trace.json", {{"traceEvents", events}, {"otherData", about}}));
}

}  // namespace
}  // namespace convoy::test
