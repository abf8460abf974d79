// convoy evaluate --report, started as users start it: its figures are those that numpy computes
// from the logits of `classify`, its pictures those of the data set, and a browser shows both.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/error_files.h"
#include "data/shard.h"
#include "tests/support/cluster.h"
#include "tests/support/images.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class EvaluateReport : public testing::Test {
protected:
    /// Trains models for an epoch: of pictures that differ in size, of grey ones, and of vectors.
    static void SetUpTestSuite() {
        folder_ = new TempDir;
        make_ragged(at("photos"), ImageLayout::jpeg);
        make_data(at("grey"), 60, 200, "28x28x1");
        ASSERT_EQ("", failure(convoy_alone("convert synthetic --kind normal --images 40 --test-images 30 --size 1x1x10 "
                                           "--to " +
                                           at("vectors"))));
        for (const auto& [data, model] :
             {std::pair("photos", "resnet18 --image-size 16"), {"grey", "mnist-linear"}, {"vectors", "linear"}})
            ASSERT_EQ("", failure(convoy_alone(std::string("train --device cpu --threads 2 --model ") + model +
                                               " --data " + at(data) + " --output " + at(data) + "-run")));
    }
    static void TearDownTestSuite() { delete folder_; }
    static std::string at(const std::string& name) { return folder_->path(name); }

    static std::string options(const std::string& data, const std::string& more) {
        return "--device cpu --threads 1 --model-file " + at(data) + "-run --data " + at(data) + " " + more;
    }
    static Finished evaluate(const std::string& data, const std::string& more) {
        return convoy_alone("evaluate " + options(data, more));
    }

    static TempDir* folder_;
    TempDir out_;
};
TempDir* EvaluateReport::folder_ = nullptr;

TEST_F(EvaluateReport, FiguresAreThoseThatNumpyComputes) {
    const std::string python = python_with("h5py, numpy");
    if (python.empty()) GTEST_SKIP() << "no python3 with h5py and numpy";
    write_file(out_.path("check.py"), R"(import csv, h5py, json, numpy as np, os, sys
file, folder, whole = h5py.File(sys.argv[1]), sys.argv[2], json.load(open(sys.argv[3]))
x, label = file["logits"][...].astype("f8"), file["label"][...]
n, k = x.shape
p = np.exp(x - x.max(1, keepdims=True))
p /= p.sum(1, keepdims=True)
best, sure = p.argmax(1), p.max(1)
r = json.load(open(folder + "/report.json"))
matrix = np.zeros((k, k), int)
np.add.at(matrix, (label, best), 1)
assert r["confusion"] == matrix.tolist(), r["confusion"]
assert r["images"] == n and r["correct"] == (best == label).sum()
assert np.isclose(r["loss"], -np.log(p[np.arange(n), label]).mean(), rtol=1e-5)
five = np.argsort(-x, axis=1, kind="stable")[:, :5]
assert np.isclose(r["top5_accuracy"], (five == label[:, None]).any(1).mean())
edges = np.linspace(0, 1, 16)
parts = [(sure > a) & (sure <= b) for a, b in zip(edges[:-1], edges[1:])]
error = sum(m.mean() * abs(sure[m].mean() - (best == label)[m].mean()) for m in parts if m.any())
assert np.isclose(r["calibration_error"], error, rtol=1e-4), (r["calibration_error"], error)
assert [b["images"] for b in r["reliability"]] == [int(m.sum()) for m in parts]
wrong = np.flatnonzero(best != label)
wrong = wrong[np.argsort(-sure[wrong], kind="stable")][:25]
assert len(r["mistakes"]) == len(wrong)
assert np.allclose([m["confidence"] for m in r["mistakes"]], sure[wrong], rtol=1e-4)
for m in r["mistakes"]:
    assert (m["label"], m["predicted"]) == (label[m["image"]], best[m["image"]])
    assert np.isclose(m["label_probability"], p[m["image"], m["label"]], rtol=1e-4)
rows = list(csv.reader(open(folder + "/confusion.csv")))
assert [[int(c) for c in row[1:]] for row in rows[1:]] == matrix.tolist()
for c, row in enumerate(csv.DictReader(open(folder + "/classes.csv"))):
    assert int(row["images"]) == matrix[c].sum() and int(row["predicted"]) == matrix[:, c].sum()
for key in ("images", "correct", "accuracy", "top5_accuracy"):
    assert whole[key] == r[key], (key, whole[key], r[key])
assert np.isclose(whole["loss"], r["loss"], rtol=1e-5)
print("ok", os.path.getsize(folder + "/report.html") > 1000)
)");
    for (const char* data : {"photos", "grey", "vectors"}) {
        const std::string to = out_.path(data);
        ASSERT_EQ("", failure(convoy_alone("classify " + options(data, "--to " + to + ".h5"))));
        ASSERT_EQ("", failure(launch(2, "evaluate --batch-per-rank 7 " + options(data, "--report " + to))));
        const Finished whole = evaluate(data, "--format json");
        ASSERT_EQ("", failure(whole));
        write_file(to + ".json", whole.out);
        const Finished f = run(python + " " + out_.path("check.py") + " " + to + ".h5 " + to + " " + to + ".json");
        EXPECT_EQ(f.out, "ok True\n") << data << ": " << f.err;
    }
}

TEST_F(EvaluateReport, PicturesAreThoseOfTheMistakes) {
    for (const std::string data : {"photos", "grey"}) {
        ASSERT_EQ("", failure(evaluate(data, "--report " + out_.path(data))));
        const auto report = nlohmann::json::parse(read_file(out_.path(data) + "/report.json"));
        const SplitReader reader(at(data), "test");
        ASSERT_FALSE(report.at("mistakes").empty());
        size_t number = 0;
        for (const auto& mistake : report.at("mistakes")) {
            const int64_t image = mistake.at("image");
            const ImagePlace place = reader.info().ragged ? reader.places()[image] : ImagePlace{0, 28, 28};
            std::vector<uint8_t> pixels(size_t(place.height * place.width * reader.info().channels));
            int32_t label = 0;
            reader.read(image, 1, pixels.data(), &label);
            EXPECT_EQ(label, mistake.at("label"));
            RgbImage shown;
            char name[32];
            std::snprintf(name, sizeof name, "/mistake-%02zu.png", ++number);
            decode_image(bytes_of(read_file(out_.path(data) + name)), shown);
            ASSERT_EQ(shown.height, place.height);
            ASSERT_EQ(shown.width, place.width);
            for (size_t i = 0; i < shown.pixels.size(); ++i)
                ASSERT_EQ(shown.pixels[i], pixels[reader.info().channels == 3 ? i : i / 3]) << name << " " << i;
        }
    }
    ASSERT_EQ("", failure(evaluate("vectors", "--report " + out_.path("vectors"))));
    EXPECT_FALSE(fs::exists(out_.path("vectors/mistake-01.png")));
}

// The page is copied with a script that reports what the browser shows.
TEST_F(EvaluateReport, ABrowserShowsTheMatrixAndThePictures) {
    const std::string browser = run("command -v chromium chromium-browser google-chrome | head -1").out;
    if (browser.empty()) GTEST_SKIP() << "no chromium";
    ASSERT_EQ("", failure(evaluate("photos", "--report " + out_.path("report"))));
    const auto report = nlohmann::json::parse(read_file(out_.path("report/report.json")));
    write_file(out_.path("page.html"), read_file(out_.path("report/report.html")) + R"(<script>onload = () => {
const cells = [...document.querySelectorAll("#confusion td")].map(c => c.textContent).join(",");
const shown = [...document.images].filter(i => i.naturalWidth > 0).length;
const bars = document.querySelectorAll("#reliability rect").length;
document.title = `${cells}; ${shown} pictures; ${bars} bars`; };</script>)");
    const Finished f = run("HOME=" + out_.path() + " timeout 60 " + browser.substr(0, browser.size() - 1) +
                           " --headless --no-sandbox --disable-gpu --virtual-time-budget=5000 --dump-dom file://" +
                           out_.path("page.html") + " | grep -o '<title>[^<]*; [^<]*</title>'");
    std::string cells;
    for (const auto& row : report.at("confusion"))
        for (const auto& count : row) cells += (cells.empty() ? "" : ",") + count.dump();
    int bars = 0;
    for (const auto& bin : report.at("reliability")) bars += bin.at("images") > 0;
    EXPECT_EQ(f.out, "<title>" + cells + "; " + std::to_string(report.at("mistakes").size()) + " pictures; " +
                         std::to_string(bars) + " bars</title>\n")
        << f.err;
}

TEST_F(EvaluateReport, ReplacesOnlyAReport) {
    const std::string to = out_.path("report");
    ASSERT_EQ("", failure(evaluate("grey", "--report " + to)));
    write_file(to + "/notes.txt", "mine");
    write_file(to + "/mistake-25.png", "of an earlier report");
    EXPECT_EQ("", refusal(evaluate("grey", "--report " + to), Exit::usage, {to, "not empty", "--overwrite"}));
    ASSERT_EQ("", failure(evaluate("photos", "--overwrite --report " + to)));
    EXPECT_EQ(read_file(to + "/notes.txt"), "mine");
    EXPECT_FALSE(fs::exists(to + "/mistake-25.png")) << "13 images have no 25 mistakes";
    write_file(out_.path("file"), "");
    EXPECT_EQ("", refusal(evaluate("grey", "--report " + out_.path("file")), Exit::usage, {"not a folder"}));
    EXPECT_EQ("", refusal(evaluate("grey", "--tta mirror --report " + to), Exit::usage, {"--report", "--tta"}));
    for (const std::string where : {"stream", "partition"})
        EXPECT_EQ("", refusal(evaluate("grey", "--data-placement " + where + " --report " + to + "-2"), Exit::usage,
                              {"--report needs all images in memory"}));
    EXPECT_EQ("", refusal(evaluate("grey", "--format xml"), Exit::usage, {"--format", "text or json"}));
}

// In a folder that others share, such a link would choose which of the user's files are replaced.
TEST_F(EvaluateReport, GoesThroughNoLinkOfAnotherUser) {
    const std::string link = out_.path("link"), mine = out_.path("mine/report.json");
    write_file(mine, "mine");
    fs::create_directory_symlink("mine", link);
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make links of another user";
    ASSERT_EQ(::lchown(link.c_str(), 65534, 65534), 0);
    for (const std::string& to : {link, link + "/"})
        EXPECT_EQ("", refusal(evaluate("grey", "--overwrite --report " + to), Exit::io,
                              {link, "a link that another user made"}));
    EXPECT_EQ(read_file(mine), "mine");
    ASSERT_EQ(::lchown(link.c_str(), 0, 0), 0);
    EXPECT_EQ("", failure(evaluate("grey", "--overwrite --report " + link)));
    EXPECT_NE(read_file(mine), "mine") << "the user's own link is followed";
}

TEST_F(EvaluateReport, AFolderOfAnotherUserIsNamed) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can make folders of another user";
    const std::string to = out_.path("theirs");
    fs::create_directory(to);
    ASSERT_EQ(::chown(to.c_str(), 65534, 65534), 0);
    const Finished f = evaluate("grey", "--report " + to);
    EXPECT_EQ("", failure(f));
    EXPECT_NE(f.err.find("warning: " + to + ": belongs to another user (uid 65534)"), std::string::npos) << f.err;
}

// A user who may rename beside the folder may put another folder at its path.
TEST_F(EvaluateReport, IsWrittenIntoTheFolderOfTheStart) {
    const std::string to = out_.path("report"), was = out_.path("was"), other = out_.path("other");
    const SplitReader reader(at("grey"), "test");
    const MeasuredModel model{"model.h5", at("grey"), "test", reader.info().class_names};
    ErrorAnalysis analysis(reader.info().classes);
    const std::vector<float> logits(size_t(reader.info().classes));
    analysis.add(0, logits, 0);
    for (const char* name : {"/report.html", "/mistake-25.png", "/mistake-01.png"}) write_file(other + name, "mine");
    const auto expect_as_it_was = [&](const std::string& folder) {
        EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 3);
        EXPECT_EQ(read_file(folder + "/report.html"), "mine");
    };
    for (const bool overwrite : {false, true}) {
        const ReportFolder folder(to, overwrite);
        fs::rename(other, to);
        EXPECT_EQ("", problem_of_error(Exit::io, {to + ": another folder has taken this path"},
                                       [&] { folder.write(analysis, model, reader); }));
        expect_as_it_was(to);
        fs::rename(to, other);
    }
    write_file(to + "/report.html", "earlier");
    const ReportFolder folder(to, true);
    fs::rename(to, was);
    fs::rename(other, to);
    folder.write(analysis, model, reader);
    EXPECT_NE(read_file(was + "/report.html"), "earlier");
    expect_as_it_was(to);
}

// Another user may make it while the model is measured, and can then read and change the report.
TEST_F(EvaluateReport, TakesNoFolderThatHasAppearedMeanwhile) {
    const std::string to = out_.path("report"), target = out_.path("target");
    const SplitReader reader(at("grey"), "test");
    ErrorAnalysis analysis(reader.info().classes);
    analysis.add(0, std::vector<float>(size_t(reader.info().classes)), 0);
    fs::create_directory(target);
    for (const bool is_link : {false, true}) {
        const ReportFolder folder(to + "/", false);
        if (is_link)
            fs::create_directory_symlink("target", to);
        else
            fs::create_directory(to);
        EXPECT_EQ("", problem_of_error(Exit::io, {"--report " + to, "another folder has taken this path"}, [&] {
                      folder.write(analysis, {"model.h5", at("grey"), "test", reader.info().class_names}, reader);
                  }));
        EXPECT_TRUE(fs::is_empty(to)) << is_link;
        fs::remove(to);
    }
}

TEST_F(EvaluateReport, FiguresArePrintedEvenIfItCannotBeWritten) {
    write_file(out_.path("file"), "");
    for (const int ranks : {1, 2}) {
        const Finished f = launch(ranks, "evaluate " + options("grey", "--report " + out_.path("file/report")));
        EXPECT_EQ("", refusal(f, Exit::io, {out_.path("file/report"), "Not a directory"}));
        EXPECT_NE(f.out.find("accuracy "), std::string::npos) << f.out;
        EXPECT_EQ(f.err.find("report    "), std::string::npos) << f.err;
    }
}

TEST_F(EvaluateReport, ComputesInBf16OnRequest) {
    const Finished low = evaluate("photos", "--format json --precision bf16");
    if (low.err.find("AVX-512") != std::string::npos) GTEST_SKIP() << low.err;
    ASSERT_EQ("", failure(low));
    const double exact = nlohmann::json::parse(evaluate("photos", "--format json").out).at("loss"),
                 rounded = nlohmann::json::parse(low.out).at("loss");
    EXPECT_EQ(nlohmann::json::parse(low.out).at("precision"), "bf16");
    EXPECT_NE(rounded, exact);
    EXPECT_NEAR(rounded, exact, 0.02 * exact) << "bf16 has 8 bits of a number";
    EXPECT_EQ("", refusal(evaluate("photos", "--precision f16"), Exit::usage, {"--precision f16"}));
}

}  // namespace
}  // namespace convoy::test
