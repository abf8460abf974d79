// convoy export --to model.onnx: a reader of the wire format in Python, and the operations in
// NumPy, give the logits that 'convoy classify' writes. `make test-interchange` runs onnxruntime
// instead.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/onnx_file.h"
#include "model/models.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

/// Reads ONNX as onnx.proto3 numbers its fields, and runs the operations of small models.
constexpr const char* reader = R"(
import struct, sys
import h5py
import numpy as np

def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at

def fields(data):
    at, found = 0, {}
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 5:
            value, at = struct.unpack("<f", data[at:at + 4])[0], at + 4
        else:
            assert tag & 7 == 2, tag
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        found.setdefault(tag >> 3, []).append(value)
    return found

def first(message, field, default=b""):
    return message.get(field, [default])[0]

def load(path):
    model = fields(open(path, "rb").read())
    graph = fields(first(model, 7))
    constants = {}
    for raw in graph[5]:
        t = fields(raw)
        kind = {1: "<f4", 7: "<i8"}[t[2][0]]
        constants[t[8][0].decode()] = np.frombuffer(t[9][0], kind).reshape(t.get(1, []))
    nodes = []
    for raw in graph[1]:
        n = fields(raw)
        attributes = {}
        for a in map(fields, n.get(5, [])):
            attributes[a[1][0].decode()] = {1: a.get(2), 2: a.get(3), 7: a.get(8)}[a[20][0]]
        nodes.append((n[4][0].decode(), [i.decode() for i in n[1]], n[2][0].decode(), attributes))
    return model, graph, constants, nodes

def conv(x, w, b=0, strides=None, **_):
    patches = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nihwkl,oikl->nohw", patches, w, optimize=True) + np.reshape(b, (-1, 1, 1))

def pool(x, **_):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))

OPS = {"Conv": conv, "MaxPool": pool, "Relu": lambda x: np.maximum(x, 0), "Cast": lambda x, to: x.astype("f4"),
       "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b, "Flatten": lambda x, axis: x.reshape(len(x), -1),
       "Gemm": lambda x, w, b, transB: x @ w.T + b}

def compute(path, x):
    _, graph, values, nodes = load(path)
    values = dict(values, **{fields(graph[11][0])[1][0].decode(): x})
    for op, inputs, output, attributes in nodes:
        values[output] = OPS[op](*(values[i] for i in inputs), **attributes)
    return values["logits"]
)";

class ExportOnnx : public testing::Test {
protected:
    void SetUp() override {
        if (run("${PYTHON:-/usr/bin/python3} -c 'import h5py, numpy'").code != 0) GTEST_SKIP() << "no h5py here";
    }
    std::string python(const std::string& script, const std::string& arguments) {
        write_file(dir_.path("script.py"), reader + script);
        const Finished f = run("${PYTHON:-/usr/bin/python3} " + dir_.path("script.py") + " " + arguments);
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

TEST_F(ExportOnnx, MnistConvComputesTheSameWithAndWithoutTheNormalisation) {
    const std::string data = dir_.path("mnist"), logits = dir_.path("logits.h5");
    ASSERT_EQ("", failure(convoy_alone("convert mnist --from input/mnist-sample --to " + data)));
    const std::string file = trained("mnist-conv", data);
    ASSERT_EQ("", failure(convoy_alone("classify --model-file " + file + " --data " + data + " --to " + logits)));
    EXPECT_EQ(python(R"(
with h5py.File(sys.argv[4]) as f:
    pixels = f["images"][:16].transpose(0, 3, 1, 2)
with h5py.File(sys.argv[3]) as f:
    logits = f["logits"][:16]
with h5py.File(sys.argv[5]) as f:
    mean, stddev = f.attrs["mean"], f.attrs["stddev"]
images = ((pixels / 255 - mean.reshape(-1, 1, 1)) / stddev.reshape(-1, 1, 1)).astype("f4")
for path, x in ((sys.argv[1], images), (sys.argv[2], pixels)):
    print(np.abs(compute(path, x) - logits).max() < 1e-4)
)",
                     exported(file, "a.onnx") + " " + exported(file, "b.onnx", "--raw-pixels") + " " + logits + " " +
                         data + "/test-00000-of-00001.h5 " + file),
              "True\nTrue\n");
}

TEST_F(ExportOnnx, EachModelIsAWholeGraphOfOpset17) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"resnet18",
         "{'Add': 8, 'BatchNormalization': 20, 'Conv': 20, 'Flatten': 1, 'Gemm': 1, 'GlobalAveragePool': 1, "
         "'MaxPool': 1, 'Relu': 17}"},
        {"airbench94",
         "{'Add': 7, 'BatchNormalization': 6, 'Conv': 7, 'Erf': 7, 'Flatten': 1, 'Gemm': 1, 'MaxPool': 4, "
         "'Mul': 22}"},
        {"pyramidnet",
         "{'Add': 51, 'AveragePool': 2, 'BatchNormalization': 155, 'Conv': 103, 'Flatten': 1, 'Gemm': 1, "
         "'GlobalAveragePool': 1, 'Pad': 51, 'Relu': 52}"}};
    for (const auto& [model, operations] : cases) {
        ModelOptions options = usual_images(model);
        options.stem = "imagenet";
        const Graph graph = build_model(options);
        std::vector<std::vector<float>> values;
        for (const Param& p : graph.params) values.emplace_back(p.shape.count());
        write_file(dir_.path("x.onnx"), onnx_file(graph, values, {.metadata = {{"classes", "10"}}, .producer = "me"}));
        EXPECT_EQ(python(R"(
model, graph, constants, nodes = load(sys.argv[1])
known = set(constants) | {"images"}
for op, inputs, output, _ in nodes:
    assert known.issuperset(inputs) and output not in known, (op, inputs, output)
    known.add(output)
assert "logits" in known
assert model[1] == [8] and [first(fields(o), 2) for o in model[8]] == [17] and model[2] == [b"me"]
assert {fields(m)[1][0]: fields(m)[2][0] for m in model[14]} == {b"classes": b"10"}
def dims(info):
    shape = fields(fields(fields(info[2][0])[1][0])[2][0])
    return [fields(d).get(1, fields(d).get(2))[0] for d in shape[1]]
print(dims(fields(graph[11][0])), dims(fields(graph[12][0])))
kinds = sorted(op for op, *_ in nodes)
print({op: kinds.count(op) for op in dict.fromkeys(kinds)})
)",
                         dir_.path("x.onnx")),
                  "[b'batch', 3, 32, 32] [b'batch', 10]\n" + operations + "\n")
            << model;
    }
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
