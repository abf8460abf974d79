// The file of `classify --to`: what it holds, and how much room it takes.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "cli/predictions.h"
#include "data/hdf5.h"
#include "tests/support/support.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {

// A list of short lines may name many files that are not there.
TEST(PredictionsFile, ImagesWithoutLogitsTakeLittleRoom) {
    if (python_with("h5py, numpy").empty()) GTEST_SKIP() << "no python3 with h5py and numpy";
    const TempDir dir;
    constexpr size_t images = 60'000, classes = 1'000, with_logits = images / 2;
    std::vector<Prediction> predictions(images, {.image = "a", .fault = "is not there"});
    predictions[with_logits] = {.image = "b", .logits = std::vector<float>(classes, 0.5f), .label = 7};
    const std::string path = dir.path("p.h5");
    write_predictions({HeldFolder(dir.path()), "p.h5"}, predictions, std::vector<std::string>(classes, "name"), "m",
                      IfThere::refuse);
    EXPECT_LT(std::filesystem::file_size(path), images * classes * sizeof(float) / 8);
    const Finished f = run(python_with("h5py, numpy") + " -c \"import h5py, numpy; f = h5py.File('" + path +
                           "'); l = f['logits']; print(l.shape, (~numpy.isnan(l[:]).all(axis=1)).nonzero()[0], "
                           "l[30000, 999], f['label'][30000], f['image'][30000], f['fault'][0])\"");
    EXPECT_EQ(f.out, "(60000, 1000) [30000] 0.5 7 b'b' b'is not there'\n") << f.err;
}

// Each row repeats names, which may come from another person's file.
TEST(PredictionsFile, RowsShortenLongNamesOfClasses) {
    for (const auto format :
         {PredictionPrinter::Format::text, PredictionPrinter::Format::csv, PredictionPrinter::Format::json}) {
        PredictionPrinter printer(format, {std::string(1000, 'a'), "b"}, 2, true);
        testing::internal::CaptureStdout();
        printer.add({.image = "i", .logits = {1, 0}, .label = 0});
        std::fflush(stdout);
        const std::string row = testing::internal::GetCapturedStdout();
        EXPECT_NE(row.find(std::string(190, 'a')), std::string::npos) << row;
        EXPECT_LT(row.size(), 700u) << row;
    }
}

}  // namespace
}  // namespace convoy::test
