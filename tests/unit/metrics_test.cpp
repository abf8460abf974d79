// Metric files: HDF5, h5ls, h5dump, h5py and src/plot/plot.py read the values that were written.
#include <algorithm>
#include <random>

#include "run/metrics_file.h"
#include "tests/support/support.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {

using MetricsFiles = MetricsFolder;

TEST_F(MetricsFiles, ColumnsComeBackAsTheyWereAdded) {
    Metrics metrics(dir);
    metrics.run_attribute("command_line", "convoy train input/recipes/a.cfg");
    metrics.run_attribute("ranks", 4);
    metrics.run_attribute("ranks", 2);
    metrics.run_attribute("momentum", 0.9);
    fill(metrics);
    EXPECT_TRUE(integers(h5(), "train/step").empty()) << "rows are in the file only after publish";
    metrics.publish();

    const std::vector<double> loss = doubles(h5(), "train/loss");
    ASSERT_EQ(loss.size(), 25u);
    EXPECT_EQ(loss[3], 0.5);
    EXPECT_EQ(integers(h5(), "train/step").back(), 25);
    EXPECT_EQ(integers(h5(), "train/epoch").back(), 3);
    EXPECT_EQ(doubles(h5(), "train/comm_exposed_seconds")[0], 0.002);
    EXPECT_TRUE(std::isnan(doubles(h5(), "eval/loss").at(1))) << "NaN is a value";
    EXPECT_EQ(doubles(h5(), "eval/accuracy"), (std::vector<double>{0.4, 0.6}));
    EXPECT_EQ(doubles(h5(), "epochs/images_per_second"), (std::vector<double>{2560, 2700}));
    EXPECT_EQ(texts(h5(), "ranks/host"), (std::vector<std::string>{"node00", "node01"}));
    EXPECT_EQ(texts(h5(), "ranks/device").at(1), "Tesla Größe");
    EXPECT_EQ(doubles(h5(), "rank_epochs/compute_seconds"), (std::vector<double>{1, 2, 1, 2}));
    EXPECT_EQ(texts(h5(), "events/kind"), (std::vector<std::string>{"checkpoint", "warning"}));
    EXPECT_NEAR(doubles(h5(), "events/time").at(0), double(std::time(nullptr)), 60);
    const std::string cut = texts(h5(), "events/message").at(1);
    EXPECT_LE(cut.size(), 1000u);
    EXPECT_TRUE(cut.ends_with("…"));

    const h5::Handle file = h5::open(h5()), run(H5Gopen2(file, "run", H5P_DEFAULT));
    EXPECT_EQ(h5::string_attribute(file, "format", h5()), "convoy-metrics");
    EXPECT_EQ(h5::int_attribute(file, "version", h5()), 1);
    EXPECT_EQ(h5::string_attribute(run, "command_line", h5()), "convoy train input/recipes/a.cfg");
    EXPECT_EQ(h5::int_attribute(run, "ranks", h5()), 2);
    EXPECT_EQ(h5::double_attributes(run, "momentum", h5()), std::vector<double>{0.9});
}

TEST_F(MetricsFiles, EveryColumnIsDescribedAndHasADimensionScale) {
    Metrics metrics(dir);
    expect_described_tables(h5());  // empty tables too
    fill(metrics);
    metrics.publish();
    expect_described_tables(h5());
    const h5::Handle file = h5::open(h5());
    EXPECT_EQ(described(h5::open_dataset(file, "train/step_seconds", h5()), "units"), "s");
    EXPECT_EQ(described(h5::open_dataset(file, "epochs/images_per_second", h5()), "units"), "images/s");
}

TEST_F(MetricsFiles, TheUsersToolsOpenTheFileWhileTheRunGoesOn) {
    Metrics metrics(dir);
    const std::string python = python_with("h5py");
    for (const char* rows : {"{0}", "{25}"}) {
        const auto [listed, listing] = shell("h5ls -r " + h5());
        const auto [dumped, dump] = shell("h5dump -H " + h5());
        if (listed == 127 || dumped == 127) GTEST_SKIP() << "h5ls and h5dump are not installed (Debian: hdf5-tools)";
        EXPECT_EQ(listed, 0) << listing;
        EXPECT_NE(listing.find(rows), std::string::npos) << listing;
        EXPECT_EQ(dumped, 0) << dump;
        if (*rows && rows[1] == '0') {
            fill(metrics);
            metrics.publish();
        }
    }
    EXPECT_NE(shell("h5dump -d /events/kind " + h5()).second.find("\"checkpoint"), std::string::npos);
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py";
    const auto [code, text] =
        shell(python + " -c \"import h5py; f = h5py.File('" + h5() +
              "'); print(f['train/loss'][3], f['train/loss'].dims[0][0].name, f['ranks/device'].asstr()[0])\"");
    EXPECT_EQ(code, 0);
    EXPECT_EQ(text, "0.5 /train/step Tesla Größe\n");
}

TEST_F(MetricsFiles, JsonLinesMatchTheTables) {
    Metrics metrics(dir);
    fill(metrics);
    metrics.write_lines();
    const std::vector<nlohmann::json> lines = json_lines(dir);
    ASSERT_EQ(lines.size(), 25u + 2 + 2 + 2 + 4 + 2);
    EXPECT_EQ(lines[3]["kind"], "train");
    EXPECT_EQ(lines[3]["step"], 4);
    EXPECT_EQ(lines[3]["loss"], 0.5);
    EXPECT_EQ(lines[26]["kind"], "eval");
    EXPECT_TRUE(lines[26]["loss"].is_null()) << "JSON has no NaN";
    EXPECT_EQ(lines[27]["kind"], "epoch");
    EXPECT_EQ(lines[29]["kind"], "rank");
    EXPECT_EQ(lines[29]["device"], "Tesla Größe");
    EXPECT_EQ(lines.back()["kind"], "event");
    EXPECT_EQ(lines.back()["event"], "warning");
    EXPECT_EQ(lines.back()["message"].get<std::string>().size(), 5002u) << "whole here, cut in metrics.h5";
    metrics.event(1, "warning", "not UTF-8: \xff");
    metrics.write_lines();
    EXPECT_EQ(json_lines(dir).size(), lines.size() + 1);
}

// A line has seven digits of a number, and milliseconds of a point in time.
TEST_F(MetricsFiles, LinesAreShortAndRight) {
    Metrics metrics(dir);
    std::mt19937_64 random(3);
    std::uniform_real_distribution<double> exponent(-12, 12);
    constexpr int rows = 500;
    for (int64_t step = 1; step <= rows; ++step) {
        const auto any = [&] { return double(float(std::pow(10, exponent(random)))); };
        metrics.add(TrainRow{123456000 + step, step, any(), -any(), any(), any(), any(), any(), any()});
    }
    metrics.add(TrainRow{1, 1, INFINITY, NAN, 0, 1e-300, 1e300, 5});
    metrics.event(1, "start", "\"quoted\"");
    metrics.publish();
    const std::vector<nlohmann::json> lines = json_lines(dir);
    for (const char* name :
         {"loss", "accuracy", "learning_rate", "step_seconds", "data_seconds", "comm_exposed_seconds"}) {
        const std::vector<double> exact = doubles(h5(), std::string("train/") + name);
        for (size_t i = 0; i < rows; ++i)
            ASSERT_NEAR(lines[i][name].get<double>(), exact[i], 5.0001e-7 * std::abs(exact[i])) << name;
    }
    EXPECT_EQ(lines[499]["step"], 123456500);
    EXPECT_TRUE(lines[rows]["loss"].is_null() && lines[rows]["accuracy"].is_null());
    EXPECT_EQ(lines[rows]["step_seconds"], 1e-300);
    EXPECT_NEAR(lines.back()["time"].get<double>(), doubles(h5(), "events/time").at(0), 0.000501);
    EXPECT_EQ(lines.back()["message"], "\"quoted\"");
    EXPECT_LT(fs::file_size(dir + "/metrics.jsonl"), size_t(rows + 2) * 245) << "bytes";
}

TEST_F(MetricsFiles, ARunHasAtMostAMillionTrainRows) {
    EXPECT_EQ(steps_between_rows(1), 1);
    EXPECT_EQ(steps_between_rows(1'000'000), 1);
    EXPECT_EQ(steps_between_rows(1'000'001), 2);
    EXPECT_EQ(steps_between_rows(5'000'000), 5);
    for (int64_t steps = 1; steps < 100'000'000; steps = steps * 13 / 8 + 1) {
        const int64_t rows = steps / steps_between_rows(steps);
        EXPECT_LE(rows, 1'000'000) << steps;
        EXPECT_GE(rows, std::min<int64_t>(steps, 500'000)) << steps;
    }
}

// Rows like those of a training; two versions of metrics.h5, the old one and the one being written.
TEST_F(MetricsFiles, TheirSizeIsKnownBeforehand) {
    Metrics metrics(dir);
    constexpr int64_t steps = 40'000, epochs = 1000, ranks = 3;
    std::mt19937_64 random(3);
    std::exponential_distribution<double> time(1000);
    for (int64_t step = 1; step <= steps; ++step)
        metrics.add(TrainRow{step, step / 40, 1 + time(random), 0.5, 0.05, time(random), time(random) / 10,
                             time(random) / 10, 0.75});
    for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
        metrics.add(
            EpochRow{epoch, 5120, time(random), 5120 / time(random), 1 + time(random), time(random), time(random)});
        metrics.add(EvalRow{epoch * 40, epoch, 1 + time(random), time(random), time(random), time(random)});
        for (int64_t rank = 0; rank < ranks; ++rank)
            metrics.add(RankEpochRow{epoch, rank, time(random), time(random), time(random), 1280, 1 + time(random),
                                     time(random)});
    }
    metrics.publish();
    const size_t most = 2 * fs::file_size(h5()) + fs::file_size(dir + "/metrics.jsonl");
    const size_t planned = bytes_of_metrics(steps, epochs, ranks);
    EXPECT_LE(most, planned);
    EXPECT_GE(most, planned * 8 / 10);
    EXPECT_LT(bytes_of_metrics(1, 1'000'000'000, 8), size_t(200) << 20) << "an endless plan needs no endless room";
}

TEST_F(MetricsFiles, PlotDrawsAPictureAndItsErrorsAreOneLine) {
    const fs::path script = "src/plot/plot.py";
    const std::string python = python_with("h5py, numpy, matplotlib");
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py, numpy and matplotlib";
    const std::string plot = python + " " + fs::absolute(script).string() + " ";
    const auto expect_error = [&](const std::string& arguments, int code, const std::string& says) {
        const auto [status, text] = shell(plot + arguments);
        EXPECT_EQ(status, code) << text;
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
        EXPECT_NE(text.find(says), std::string::npos) << text;
    };
    expect_error("", 2, "usage");
    expect_error(dir, 3, "no such file");
    Metrics metrics(dir);
    expect_error(dir, 3, "no rows");
    std::ofstream(dir + "/other.h5") << "not HDF5";
    expect_error(dir + "/other.h5", 3, "other.h5");

    fill(metrics);
    metrics.publish();
    const auto [status, text] = shell(plot + dir);
    ASSERT_EQ(status, 0) << text;
    EXPECT_EQ(text, dir + "/metrics.png\n");
    std::ifstream picture(dir + "/metrics.png", std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(picture), {});
    ASSERT_GT(bytes.size(), 20000u);
    EXPECT_EQ(bytes.substr(1, 3), "PNG");
    const auto big_endian = [&](size_t at) {
        return uint8_t(bytes[at]) << 24 | uint8_t(bytes[at + 1]) << 16 | uint8_t(bytes[at + 2]) << 8 |
               uint8_t(bytes[at + 3]);
    };
    EXPECT_GE(big_endian(16), 1000) << "width in pixels";
    EXPECT_GE(big_endian(20), 700) << "height in pixels";
}

// metrics.h5 keeps 1000 bytes of a text.
TEST(MetricsTexts, OfAThousandBytesAreWhole) {
    const TempDir dir;
    Metrics m(dir.path());
    const std::string whole(1000, 'x'), wide = std::string(998, 'x') + "ü" + "y";
    for (const std::string& text : {whole, whole + "x", wide}) m.event(1, "note", text);
    m.publish();
    const std::vector<EventRow> rows = read_metrics(dir.path("metrics.h5")).rows<EventRow>();
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_EQ(rows[0].message, whole);
    EXPECT_EQ(rows[1].message, whole.substr(0, 997) + "…");
    EXPECT_EQ(rows[2].message, whole.substr(0, 997) + "…");
}

}  // namespace
}  // namespace convoy::test
