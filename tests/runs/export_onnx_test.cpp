// convoy export --to model.onnx: a reader of the wire format in Python, and the operations in
// NumPy (tests/support/onnx_reader.py), give the logits that 'convoy classify' writes and those of
// PyTorch. `make test-interchange` runs onnxruntime instead.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/onnx_file.h"
#include "model/models.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class ExportOnnx : public testing::Test {
protected:
    void SetUp() override {
        if (run("${PYTHON:-/usr/bin/python3} -c 'import h5py, numpy'").code != 0) GTEST_SKIP() << "no h5py here";
    }
    std::string python(const std::string& script, const std::string& arguments) {
        write_file(dir_.path("script.py"), "import sys\nimport h5py\nfrom onnx_reader import *\n" + script);
        const Finished f =
            run("PYTHONPATH=tests/support ${PYTHON:-/usr/bin/python3} -B " + dir_.path("script.py") + " " + arguments);
        return f.code == 0 ? f.out : f.err;
    }
    std::string trained(const std::string& model, const std::string& data) {
        const std::string out = dir_.path(model);
        EXPECT_EQ("", failure(convoy_alone("train --model " + model + " --data " + data +
                                           " --lr 0.01 --max-steps 2 --batch-size 8 --eval-images 8 --output " + out)));
        return out + "/model.h5";
    }
    std::string exported(const std::string& file, const std::string& name, const std::string& options = "") {
        const std::string to = dir_.path(name);
        EXPECT_EQ("", failure(convoy_alone("export --model-file " + file + " --to " + to + " " + options)));
        return to;
    }
    TempDir dir_;
};

TEST_F(ExportOnnx, MnistConvComputesTheSameInEachTypeWithAndWithoutTheNormalisation) {
    const std::string data = dir_.path("mnist"), logits = dir_.path("logits.h5");
    ASSERT_EQ("", failure(convoy_alone("convert mnist --from input/mnist-sample --to " + data)));
    const std::string file = trained("mnist-conv", data);
    ASSERT_EQ("", failure(convoy_alone("classify --model-file " + file + " --data " + data + " --to " + logits)));
    std::string files;
    for (const std::string type : {"f32", "f16", "bf16"})
        files += " " + exported(file, type + ".onnx", "--dtype " + type) + " " +
                 exported(file, type + "-raw.onnx", "--raw-pixels --dtype " + type);
    // f16 keeps 11 bits of a value, and bf16 8 of a weight. The roundings of twenty operations are
    // independent, so they add up to sqrt(20) times as much.
    EXPECT_EQ(python(R"(
with h5py.File(sys.argv[2]) as f:
    pixels = f["images"][:16].transpose(0, 3, 1, 2)
with h5py.File(sys.argv[1]) as f:
    logits = f["logits"][:16]
with h5py.File(sys.argv[3]) as f:
    mean, stddev = f.attrs["mean"], f.attrs["stddev"]
images = ((pixels / 255 - mean.reshape(-1, 1, 1)) / stddev.reshape(-1, 1, 1)).astype("f4")
largest = np.abs(logits).max()
for path, x, limit in zip(sys.argv[4:], [images, pixels] * 3, np.repeat([1e-4, 2**-11 * 20**0.5, 2**-8 * 20**0.5], 2)):
    got = compute(path, x)
    print(got.dtype, np.abs(got - logits).max() < limit * largest)
)",
                     logits + " " + data + "/test-00000-of-00001.h5 " + file + files),
              "float32 True\nfloat32 True\nfloat32 True\nfloat32 True\nfloat32 True\nfloat32 True\n");
}

struct WholeGraph {
    std::string model;
    DType dtype;
    std::string operations, constants;  ///< how many of each kind, and of each type of onnx.proto3
};

TEST_F(ExportOnnx, EachModelIsAWholeGraphOfOpset17) {
    const std::vector<WholeGraph> cases = {
        {"resnet18", DType::f32,
         "{'Add': 8, 'BatchNormalization': 20, 'Conv': 20, 'Flatten': 1, 'Gemm': 1, 'GlobalAveragePool': 1, "
         "'MaxPool': 1, 'Relu': 17}",
         "{1: 102}"},
        {"resnet18", DType::f16,
         "{'Add': 8, 'Cast': 2, 'Conv': 20, 'Flatten': 1, 'Gemm': 1, 'GlobalAveragePool': 1, 'MaxPool': 1, "
         "'Relu': 17}",
         "{10: 42}"},
        {"resnet18", DType::bf16,
         "{'Add': 8, 'BatchNormalization': 20, 'Cast': 21, 'Conv': 20, 'Flatten': 1, 'Gemm': 1, "
         "'GlobalAveragePool': 1, 'MaxPool': 1, 'Relu': 17}",
         "{1: 81, 16: 21}"},
        {"airbench94", DType::f32,
         "{'Add': 7, 'BatchNormalization': 6, 'Conv': 7, 'Erf': 7, 'Flatten': 1, 'Gemm': 1, 'MaxPool': 4, "
         "'Mul': 22}",
         "{1: 37}"},
        {"pyramidnet", DType::f32,
         "{'Add': 51, 'AveragePool': 2, 'BatchNormalization': 155, 'Conv': 103, 'Flatten': 1, 'Gemm': 1, "
         "'GlobalAveragePool': 1, 'Pad': 51, 'Relu': 52}",
         "{1: 725, 7: 51}"}};
    for (const auto& [model, dtype, operations, constants] : cases) {
        ModelOptions options = usual_images(model);
        options.stem = "imagenet";
        const Graph graph = build_model(options);
        std::vector<std::vector<float>> values;
        for (const Param& p : graph.params) values.emplace_back(p.shape.count());
        write_file(dir_.path("x.onnx"),
                   onnx_file(graph, values, {.dtype = dtype, .metadata = {{"classes", "10"}}, .producer = "me"}));
        EXPECT_EQ(python(R"(
model, graph, constants, types, nodes = load(sys.argv[1])
known = set(constants) | {"images"}
for op, inputs, output, _ in nodes:
    assert known.issuperset(inputs) and output not in known, (op, inputs, output)
    known.add(output)
assert "logits" in known
assert model[1] == [8] and [first(fields(o), 2) for o in model[8]] == [17] and model[2] == [b"me"]
assert {fields(m)[1][0]: fields(m)[2][0] for m in model[14]} == {b"classes": b"10"}
def tensor(info):
    kind = fields(fields(info[2][0])[1][0])
    return kind[1] + [fields(d).get(1, fields(d).get(2))[0] for d in fields(kind[2][0])[1]]
def counts(kinds):
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}
print(tensor(fields(graph[11][0])), tensor(fields(graph[12][0])))
print(counts([op for op, *_ in nodes]))
print(counts(list(types.values())))
)",
                         dir_.path("x.onnx")),
                  "[1, b'batch', 3, 32, 32] [1, b'batch', 10]\n" + operations + "\n" + constants + "\n")
            << model << " in " << name_of(dtype);
    }
}

// A mean of 300 with a deviation of 1e-4 becomes a constant of 3e6.
TEST_F(ExportOnnx, WhatF16CannotHoldIsRefused) {
    GraphBuilder b("test", 4, 4, 1, 1);
    const ValueId x = b.batch_norm("bn", b.input(), 1e-12f);
    const Graph graph = b.finish(b.linear("fc", x, 1), 0);
    std::vector<std::vector<float>> values;
    for (const Param& p : graph.params) values.emplace_back(p.shape.count(), 1.0f);
    values[1] = {0}, values[2] = {0}, values[3] = {1e-8f};  // bias, mean, variance
    EXPECT_FALSE(onnx_file(graph, values, {.dtype = DType::f16}).empty()) << "f16 would round this variance to 0";
    values[2] = {300};
    try {
        onnx_file(graph, values, {.dtype = DType::f16});
        FAIL() << "300 / 1e-4 is more than 65504";
    } catch (const Error& e) {
        EXPECT_EQ(e.code, Exit::bad_input);
        EXPECT_NE(std::string(e.what()).find(
                      "constant bn.shift of the ONNX file has the value -2.99985e+06, which f16 cannot hold; take"),
                  std::string::npos)
            << e.what();
    }
    EXPECT_FALSE(onnx_file(graph, values, {.dtype = DType::bf16}).empty());
}

TEST_F(ExportOnnx, VectorsHaveNoPixels) {
    const std::string data = dir_.path("normal");
    ASSERT_EQ("", failure(convoy_alone(
                      "convert synthetic --kind normal --size 1x1x10 --images 32 --test-images 16 --to " + data)));
    const std::string file = trained("linear", data);
    exported(file, "x.onnx");
    EXPECT_EQ("", refusal(convoy_alone("export --raw-pixels --model-file " + file + " --to " + dir_.path("y.onnx")),
                          Exit::usage, {"--raw-pixels", "vectors"}));
    EXPECT_FALSE(std::filesystem::exists(dir_.path("y.onnx")));
}

}  // namespace
}  // namespace convoy::test
