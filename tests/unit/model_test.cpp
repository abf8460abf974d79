// Models: number of parameters, refusals, initial values, the result of fusion, and model files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "data/digest.h"
#include "model/models.h"
#include "tests/support/model_runner.h"
#include "tests/support/support.h"
#include "train/model_file.h"

namespace convoy::test {
namespace {

ModelOptions options(const std::string& name, int side, int channels, int classes, const std::string& stem = "auto") {
    ModelOptions o;
    o.name = name;
    o.h = o.w = side;
    o.c = channels;
    o.classes = classes;
    o.stem = stem;
    return o;
}

TEST(Models, HaveTheirPublishedSizes) {
    const auto count = [](const ModelOptions& o) { return build_model(o).parameter_count(); };
    EXPECT_EQ(count(options("pyramidnet", 32, 3, 10)), 24'253'410u);
    EXPECT_EQ(count(options("pyramidnet110", 32, 3, 10)), 28'485'477u);
    EXPECT_EQ(count(options("resnet50", 224, 3, 1000)), 25'557'032u);
    EXPECT_EQ(count(options("resnet50", 32, 3, 10)), 23'520'842u);
    EXPECT_EQ(count(options("resnet34", 224, 3, 1000)), 21'797'672u);
    EXPECT_EQ(count(options("resnet101", 224, 3, 1000)), 44'549'160u);
    EXPECT_EQ(count(options("resnet152", 224, 3, 1000)), 60'192'808u);
    EXPECT_EQ(count(options("resnet18", 224, 3, 1000)), 11'689'512u);
    EXPECT_EQ(count(options("resnet18", 32, 3, 10)), 11'173'962u);
    EXPECT_EQ(count(options("airbench94", 32, 3, 10)), 1'972'792u);
    EXPECT_EQ(count(options("mnist-conv", 28, 1, 10)), 21'840u);
    EXPECT_EQ(count(options("mnist-linear", 28, 1, 10)), 7'850u);
    EXPECT_EQ(count(options("linear", 1, 10, 10)), 110u);
}

TEST(Models, CountTheirWork) {  // multiply-adds of one image, times two
    EXPECT_EQ(build_model(options("linear", 1, 10, 10)).flops_per_image(), 200);
    EXPECT_NEAR(build_model(options("resnet50", 224, 3, 1000)).flops_per_image() / 2, 4.09e9, 0.01e9);
    EXPECT_NEAR(build_model(options("resnet18", 224, 3, 1000)).flops_per_image() / 2, 1.81e9, 0.01e9);
    EXPECT_NEAR(build_model(options("resnet34", 224, 3, 1000)).flops_per_image() / 2, 3.66e9, 0.01e9);
    EXPECT_NEAR(build_model(options("resnet101", 224, 3, 1000)).flops_per_image() / 2, 7.80e9, 0.01e9);
    EXPECT_NEAR(build_model(options("resnet152", 224, 3, 1000)).flops_per_image() / 2, 11.51e9, 0.01e9);
}

TEST(Models, RefuseWhatDoesNotFitInOneLine) {
    const auto refused = [](Exit code, const std::vector<std::string>& words, const ModelOptions& o) {
        EXPECT_EQ("", problem_of_error(code, words, [&] { build_model(o); })) << o.name;
    };
    refused(Exit::bad_input, {"mnist-conv", "28x28x1", "32x32x3"}, options("mnist-conv", 32, 3, 10));
    refused(Exit::bad_input, {"resnet18", "images of any size with 3 channels", "32x32x1"},
            options("resnet18", 32, 1, 10));
    refused(Exit::bad_input, {"pyramidnet", "divisible by 4", "30x30"}, options("pyramidnet", 30, 3, 10));
    refused(Exit::bad_input, {"airbench94", "32x32x3", "28x28x3"}, options("airbench94", 28, 3, 10));
    refused(Exit::bad_input, {"linear", "1x1x10"}, options("linear", 2, 10, 10));
    ModelOptions oblong = options("resnet50", 32, 3, 10);
    oblong.w = 48;
    refused(Exit::bad_input, {"resnet50", "square", "32x48"}, oblong);
    refused(Exit::usage, {"alexnet", "resnet50", "mnist-linear"}, options("alexnet", 32, 3, 10));
    for (const std::string& name : model_names()) EXPECT_NE(name, "alexnet");
}

TEST(Models, ChooseTheStemBySize) {
    const auto ops = [](int side, const std::string& stem) {
        return build_model(options("resnet18", side, 3, 10, stem)).ops.size();
    };
    EXPECT_EQ(ops(32, "auto"), ops(32, "cifar"));
    EXPECT_EQ(ops(64, "auto"), ops(64, "cifar"));
    EXPECT_EQ(ops(96, "auto"), ops(96, "imagenet"));
    EXPECT_EQ(ops(96, "imagenet"), ops(96, "cifar") + 1) << "its max pool";
}

TEST(Models, LeaveDropoutOutOnRequest) {
    ModelOptions o = options("mnist-conv", 28, 1, 10);
    const auto dropouts = [&] {
        const Graph g = build_model(o);
        return std::count_if(g.ops.begin(), g.ops.end(),
                             [](const Op& op) { return std::holds_alternative<Dropout>(op); });
    };
    EXPECT_EQ(dropouts(), 2);
    o.dropout = false;
    EXPECT_EQ(dropouts(), 0);
}

class ModelsOn : public testing::TestWithParam<std::string> {
protected:
    std::unique_ptr<Backend> backend_ = make_test_backend(GetParam());

    Floats tensor(const NamedTensor& t) { return download<float>(*backend_, t.tensor.data, t.tensor.count()); }
    std::vector<Floats> initial(const Graph& g, uint64_t seed) {
        State state(g, *backend_, nullptr);
        state.initialise(g, *backend_, seed);
        std::vector<Floats> all;
        for (const NamedTensor& t : state.model()) all.push_back(tensor(t));
        return all;
    }
};

TEST_P(ModelsOn, StartFromTheSeed) {
    const Graph g = build_model(options("resnet18", 32, 3, 10));
    const std::vector<Floats> one = initial(g, 1), again = initial(g, 1), two = initial(g, 2);
    ASSERT_EQ(one.size(), g.params.size());
    EXPECT_EQ(one, again);
    for (size_t id = 0; id < one.size(); ++id) {
        const Param& p = g.params[id];
        EXPECT_EQ(one[id] == two[id], p.init.kind == Init::constant) << p.name;
        double sum = 0, squares = 0, most = 0;
        for (const float v : one[id]) {
            sum += v;
            squares += double(v) * double(v);
            most = std::max(most, std::abs(double(v)));
        }
        const double n = double(one[id].size()), a = p.init.a, deviation = std::sqrt(squares / n);
        if (p.init.kind == Init::constant) {
            EXPECT_EQ(one[id], Floats(one[id].size(), p.init.a)) << p.name;
            continue;
        }
        const double expected = p.init.kind == Init::normal ? a : a / std::sqrt(3);
        EXPECT_NEAR(sum / n, 0, 5 * expected / std::sqrt(n)) << p.name;               // five deviations of a mean
        EXPECT_NEAR(deviation, expected, 5 * expected / std::sqrt(2 * n)) << p.name;  // and of a deviation
        EXPECT_LE(most, p.init.kind == Init::uniform ? a : 7 * a) << p.name;
    }
    // Same shapes with other names have other draws.
    const auto at = [&](const std::string& name) {
        return size_t(std::find_if(g.params.begin(), g.params.end(), [&](const Param& p) { return p.name == name; }) -
                      g.params.begin());
    };
    EXPECT_NE(one[at("stage1.block0.conv1.weight")], one[at("stage1.block0.conv2.weight")]);
}

/// Counts the ops of each kind in a graph: "add 2, batch_norm 5, ...".
std::map<std::string, int> census(const Graph& g) {
    std::map<std::string, int> counts;
    for (const Op& op : g.ops) ++counts[name_of(op)];
    return counts;
}

TEST(Models, FusionLeavesNoAddAndFewRelu) {
    using Census = std::map<std::string, int>;
    EXPECT_EQ(census(fuse(build_model(options("resnet18", 32, 3, 10)))),
              (Census{{"conv", 20}, {"batch_norm", 20}, {"pool", 1}, {"linear", 1}, {"softmax_xent", 1}}));
    EXPECT_EQ(census(build_model(options("resnet18", 32, 3, 10))), (Census{{"conv", 20},
                                                                           {"batch_norm", 20},
                                                                           {"relu", 17},
                                                                           {"add", 8},
                                                                           {"pool", 1},
                                                                           {"linear", 1},
                                                                           {"softmax_xent", 1}}));
    EXPECT_EQ(census(fuse(build_model(options("airbench94", 32, 3, 10)))), (Census{{"conv", 7},
                                                                                   {"gelu", 1},
                                                                                   {"batch_norm", 6},
                                                                                   {"pool", 4},
                                                                                   {"linear", 1},
                                                                                   {"scale", 1},
                                                                                   {"softmax_xent", 1}}));
    // Two of 51 shortcuts average; the others vanish in their batch norm.
    EXPECT_EQ(
        census(fuse(build_model(options("pyramidnet", 32, 3, 10)))),
        (Census{
            {"conv", 103}, {"batch_norm", 155}, {"pad_shortcut", 2}, {"pool", 1}, {"linear", 1}, {"softmax_xent", 1}}));
    EXPECT_EQ(census(fuse(build_model(options("mnist-conv", 28, 1, 10)))),
              census(build_model(options("mnist-conv", 28, 1, 10))));
}

double length(const Floats& v) {
    double sum = 0;
    for (const float e : v) sum += double(e) * double(e);
    return std::sqrt(sum);
}

TEST_P(ModelsOn, ComputeTheSameFused) {
    const ModelOptions small = options("pyramidnet", 16, 3, 10);
    for (const Graph& g : {build_model(options("resnet18", 16, 3, 10)), build_model(options("resnet50", 16, 3, 10)),
                           build_pyramidnet(small, 2)}) {
        const Graph fused = fuse(g);
        EXPECT_LT(fused.ops.size(), g.ops.size());
        ModelRunner plain(*backend_, g, 3), other(*backend_, fused, 3);
        const Floats input = stream("input", 3 * 16 * 16 * 3);
        for (ModelRunner* run : {&plain, &other}) {
            run->set_batch(input, {1, 7, 4});
            run->forward_backward();
        }
        // Fused multiply-adds may differ: the float's last place, through 18 to 50 layers.
        EXPECT_NEAR(plain.loss(), other.loss(), 1e-5 * plain.loss()) << g.model;
        const Floats logits = plain.logits(), fused_logits = other.logits();
        for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], fused_logits[i], 1e-4) << g.model;
        for (size_t id = 0; id < g.params.size(); ++id) {
            const bool trained = g.params[id].trained;
            Floats a = trained ? plain.gradient(int(id)) : plain.param(int(id)),
                   b = trained ? other.gradient(int(id)) : other.param(int(id));
            const double size = length(a);
            for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
            EXPECT_LE(length(a), 1e-3 * size + 1e-5) << g.model << " " << g.params[id].name;
        }
    }
}

class ModelFiles : public ModelsOn {
protected:
    TempDir dir_;
    const std::string path_ = dir_.path("model.h5");
    const ModelFile about_{
        options("resnet18", 32, 3, 4, "cifar"), {{0.1f, 0.2f, 0.3f}, {0.4f, 0.5f, 0.6f}, 37}, {"a", "b", "c", "d"}};
    const Graph graph_ = build_model(about_.model);

    State saved() {
        State state(graph_, *backend_, nullptr);
        state.initialise(graph_, *backend_, 3);
        save_model(path_, about_, state, *backend_);
        return state;
    }
};

TEST_P(ModelFiles, ComeBackAsTheyWere) {
    const State state = saved();
    const ModelFile read = OpenModel(path_).file();
    EXPECT_EQ(read.model.name, "resnet18");
    EXPECT_EQ(read.model.stem, "cifar");
    EXPECT_EQ(std::vector<int>({read.model.h, read.model.w, read.model.c, read.model.classes}),
              (std::vector<int>{32, 32, 3, 4}));
    EXPECT_EQ(read.preprocessing.mean, about_.preprocessing.mean);
    EXPECT_EQ(read.preprocessing.stddev, about_.preprocessing.stddev);
    EXPECT_EQ(read.preprocessing.short_side, 37);
    for (const int64_t wrong : {-1, 1, 31, 8193}) {
        {
            const h5::Handle file(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
            h5::set_attribute(file, "short_side", wrong);
        }
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "short_side", std::to_string(wrong)},
                                       [&] { OpenModel(path_).file(); }));
    }
    saved();
    EXPECT_EQ(read.class_names, about_.class_names);

    const Graph fused = fuse(graph_);  // an evaluation may have another graph of the same model
    State other(fused, *backend_, nullptr);
    OpenModel(path_).check_tensors(fused);
    OpenModel(path_).load(other, *backend_);
    ASSERT_EQ(other.model().size(), state.model().size());
    for (size_t i = 0; i < state.model().size(); ++i) {
        EXPECT_EQ(other.model()[i].name, state.model()[i].name);
        EXPECT_EQ(tensor(other.model()[i]), tensor(state.model()[i])) << state.model()[i].name;
    }
}

// A training renames a new model into place while another program reads the old one.
TEST_P(ModelFiles, AreReadFromTheFileThatWasOpened) {
    const State state = saved();
    const OpenModel opened(path_);
    const std::string before = digest_of_file(Digest::Kind::sha256, path_);
    EXPECT_EQ(opened.sha256(), before);
    ModelFile changed = about_;
    changed.preprocessing.mean = {0.9f, 0.9f, 0.9f};
    State another(graph_, *backend_, nullptr);
    another.initialise(graph_, *backend_, 4);
    save_model(path_, changed, another, *backend_);
    ASSERT_NE(digest_of_file(Digest::Kind::sha256, path_), before);

    EXPECT_EQ(opened.sha256(), before);
    EXPECT_EQ(opened.file().preprocessing.mean, about_.preprocessing.mean);
    State read(graph_, *backend_, nullptr);
    opened.load(read, *backend_);
    for (size_t i = 0; i < state.model().size(); ++i)
        EXPECT_EQ(tensor(read.model()[i]), tensor(state.model()[i])) << state.model()[i].name;
}

// Files from before vectors existed.
TEST_P(ModelFiles, WithoutWhatTheyWereTrainedOnAreOfImages) {
    saved();
    const auto edit = [&](const std::string& text) {
        const h5::Handle file(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
        ASSERT_GE(H5Adelete(file, "trained_on"), 0);
        if (!text.empty()) h5::set_checked_attribute(file, "trained_on", text);
        h5::set_attribute(file, "short_side", int64_t(0));  // vectors are not resized
    };
    edit("convoy-vectors");
    EXPECT_EQ(OpenModel(path_).file().data, DType::f32);
    edit("tables");
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_, "trained_on", "tables"}, [&] { OpenModel(path_).file(); }));
    edit("");
    EXPECT_EQ(OpenModel(path_).file().data, DType::u8);
}

TEST_P(ModelFiles, OfAnotherModelAreRefused) {
    saved();
    const auto refused = [&](const ModelOptions& o, const std::vector<std::string>& words) {
        const Graph other = build_model(o);
        EXPECT_EQ("", problem_of_error(Exit::bad_input, words, [&] { OpenModel(path_).check_tensors(other); }));
        const State state(other, *backend_, nullptr);
        EXPECT_EQ("", problem_of_error(Exit::bad_input, words, [&] { OpenModel(path_).load(state, *backend_); }));
    };
    refused(options("resnet18", 32, 3, 5), {path_, "fc.weight", "another shape"});
    refused(options("mnist-conv", 28, 1, 10), {path_, "conv1.weight", "missing"});
    refused(options("resnet18", 96, 3, 4, "imagenet"), {path_, "stem.conv.weight", "another shape"});
}

TEST_P(ModelFiles, ThatAreNoneAreRefused) {
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_}, [&] { OpenModel(path_).file(); }));
    write_file(path_, "no HDF5");
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {path_}, [&] { OpenModel(path_).file(); }));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"linear.h5", "not a model file"},
                                   [] { OpenModel("tests/golden/linear.h5").file(); }));
    State state(graph_, *backend_, nullptr);
    EXPECT_EQ("", problem_of_error(Exit::io, {path_ + "/model.h5"},
                                   [&] { save_model(path_ + "/model.h5", about_, state, *backend_); }));
}

INSTANTIATE_TEST_SUITE_P(All, ModelsOn, testing::ValuesIn(test_devices()), [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(All, ModelFiles, testing::ValuesIn(test_devices()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
