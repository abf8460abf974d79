// Tests which data sets a model file can be evaluated on.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "cli/commands.h"
#include "data/decode.h"
#include "data/hdf5.h"
#include "data/shard.h"
#include "model/models.h"
#include "tests/support/cluster.h"
#include "tests/support/images.h"
#include "tests/support/support.h"
#include "tests/support/test_comm.h"
#include "train/model_file.h"

namespace convoy::test {
namespace {

TEST(EvaluateData, IsOfTheModelsImagesAndClasses) {
    const TempDir dir;
    cpu::CpuBackend backend({1, false}, test_comm());
    const ModelFile file{{"mnist-linear", 28, 28, 1, 10},
                         {{0.5f}, {0.25f}},
                         make_synthetic({.images = 1, .height = 1, .width = 1, .channels = 1}).class_names};
    const Graph graph = build_model(file.model);
    const State state(graph, backend, nullptr);
    save_model(dir.path("model.h5"), file, state, backend);
    const auto problem = [&](const Source& source, const std::string& word) {
        write_data_set(source, dir.path("data"), 1, true);
        return problem_of_error(Exit::bad_input, {dir.path("model.h5"), dir.path("data"), word}, [&] {
            evaluate(test_comm(), {"--model-file", dir.path("model.h5"), "--data", dir.path("data"), "--device", "cpu",
                                   "--threads", "1"});
        });
    };
    SyntheticShape shape{.images = 4, .test_images = 4, .height = 28, .width = 28, .channels = 1, .classes = 10};
    const std::pair<int SyntheticShape::*, std::vector<std::string>> numbers[] = {
        {&SyntheticShape::height, {"28x28 pixels", "29x28 pixels"}},
        {&SyntheticShape::width, {"28x28 pixels", "28x29 pixels"}},
        {&SyntheticShape::channels, {"images of 1 channel, but", "images of 2 channels;"}},
        {&SyntheticShape::classes, {"10 classes", "11 classes"}}};
    for (const auto& [number, words] : numbers) {
        SyntheticShape changed = shape;
        ++(changed.*number);
        for (const std::string& word : words)
            EXPECT_EQ("", problem(make_synthetic(changed), word)) << changed.height << "x" << changed.width;
    }
    EXPECT_EQ("", problem(make_normal(shape), "was trained on images"));
    Source renamed = make_synthetic(shape);
    renamed.class_names[7] = "another";
    EXPECT_EQ("", problem(renamed, "class 7 is 'class 7'"));
}

TEST(EvaluateData, IsForModelsOfFiniteNumbers) {
    const TempDir dir;
    const std::string path = dir.path("model.h5"), picture = dir.path("x.jpg");
    cpu::CpuBackend backend({1, false}, test_comm());
    const Source source = make_synthetic({.images = 4, .test_images = 4, .height = 28, .width = 28, .channels = 1});
    write_data_set(source, dir.path("data"), 1, true);
    write_file(picture, jpeg_of(pattern(28, 28, 1)));
    ModelFile file{{"mnist-linear", 28, 28, 1, 10}, {{0.5f}, {0.25f}}, source.class_names};
    const Graph graph = build_model(file.model);
    const State state(graph, backend, nullptr);
    const auto set_all = [&](const NamedTensor& t, float last) {
        std::vector<float> values(t.tensor.count(), 0.5f);
        values.back() = last;
        backend.upload(t.tensor.data, values.data(), t.tensor.bytes());
    };
    const auto problem = [&](const std::string& name) {
        save_model(path, file, state, backend);
        const std::vector<std::string> words = {path + ": " + name + " has a value that is not"},
                                       model = {"--model-file", path, "--device", "cpu", "--threads", "1"};
        std::vector<std::string> data = model, pictures = model;
        data.insert(data.end(), {"--data", dir.path("data")});
        pictures.push_back(picture);
        return problem_of_error(Exit::bad_input, words, [&] { evaluate(test_comm(), data); }) +
               problem_of_error(Exit::bad_input, words, [&] { classify(test_comm(), pictures); });
    };
    for (const NamedTensor& t : state.model()) set_all(t, 0.5f);
    for (const float bad : {NAN, INFINITY, -INFINITY})
        for (const NamedTensor& t : state.model()) {
            set_all(t, bad);
            EXPECT_EQ("", problem(t.name)) << bad;
            set_all(t, 0.5f);
        }
    file.preprocessing.mean = {NAN};
    EXPECT_EQ("", problem("mean"));
    for (const float bad : {NAN, 0.0f, -1.0f, INFINITY}) {
        file.preprocessing = {{0.5f}, {bad}};
        EXPECT_EQ("", problem("stddev")) << bad;
    }
}

// A file of 300 KB that names a ResNet-50 of 300,000 classes made classify take 2.4 GB.
TEST(EvaluateData, AModelFileWithoutTensorsTakesNoMemoryForThem) {
    const TempDir dir;
    const std::string path = dir.path("model.h5"), picture = dir.path("x.jpg");
    const ModelFile file{{"resnet50", 224, 224, 3, 300'000, "imagenet"},
                         {{0.5f, 0.5f, 0.5f}, {0.25f, 0.25f, 0.25f}},
                         std::vector<std::string>(300'000, "a")};
    convoy::write_file(path, [&](hid_t to, const std::string&) {
        h5::set_checked_attribute(to, "format", "convoy-model");
        write_model_attributes(to, file);
    });
    write_file(picture, jpeg_of(pattern(28, 28, 3)));
    const Finished f = run(
        "ulimit -v 2000000; " +
        with_limit(sibling("convoy") + " classify --device cpu --threads 1 --model-file " + path + " " + picture, 60));
    EXPECT_EQ("", refusal(f, Exit::bad_input, {path, "tensor stem.conv.weight is missing"}));
}

}  // namespace
}  // namespace convoy::test
