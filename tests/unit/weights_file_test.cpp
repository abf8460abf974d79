// Files of weights from elsewhere: values of all types, and hostile files, which are refused in one
// line. tests/golden/make_weights.py wrote the good files by PyTorch.
#include <gtest/gtest.h>

#include <bit>
#include <ctime>
#include <filesystem>
#include <sstream>

#include "cli/match_weights.h"
#include "data/safetensors.h"
#include "data/weights_file.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

class WeightsFile : public testing::Test {
protected:
    /// Writes a safetensors file with this header.
    std::string with_header(const std::string& header, const std::string& values = "", uint64_t length = 0) {
        std::string bytes;
        const uint64_t stated = length > 0 ? length : header.size();
        for (int i = 0; i < 8; ++i) bytes += char(stated >> (8 * i));
        write_file(dir_.path("x.safetensors"), bytes + header + values);
        return dir_.path("x.safetensors");
    }
    static StoredTensors tensors_in(const std::string& path, const std::string& key = "") {
        return stored_tensors(InputBytes(path), key);
    }
    std::string refused(const std::string& path, const std::vector<std::string>& words) {
        return problem_of_error(Exit::bad_input, words, [&] {
            const InputBytes file(path);
            for (const StoredTensor& t : stored_tensors(file).tensors) stored_values(file, t);
        });
    }
    TempDir dir_;
};

std::string entry(const std::string& type, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":")" + type + R"(","shape":[)" + shape + R"(],"data_offsets":[)" + offsets + "]}";
}

TEST_F(WeightsFile, SafetensorsOfEachTypeHaveTheirValues) {
    // 1.5, -2 and 0.25 in each type
    const std::vector<std::pair<std::string, std::vector<unsigned char>>> cases = {
        {"F32", {0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0x80, 0x3e}},
        {"F16", {0, 0x3e, 0, 0xc0, 0, 0x34}},
        {"BF16", {0xc0, 0x3f, 0, 0xc0, 0x80, 0x3e}},
        {"F64", {0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0xd0, 0x3f}}};
    for (const auto& [type, bytes] : cases) {
        const auto file = safetensors_file(
            {{"n", "I64", {}, std::vector<unsigned char>(8)}, {"a", type, {3, 1}, bytes}}, {{"model", "linear"}});
        write_file(dir_.path("x"), {file.begin(), file.end()});
        const InputBytes input(dir_.path("x"));
        const StoredTensors all = stored_tensors(input);
        ASSERT_EQ(all.tensors.size(), 2U);
        EXPECT_EQ(all.metadata.at("model"), "linear");
        EXPECT_EQ(all.tensors[0].shape, (std::vector<int64_t>{3, 1}));
        EXPECT_EQ(stored_values(input, all.tensors[0]), (std::vector<float>{1.5f, -2, 0.25f})) << type;
        EXPECT_EQ(
            "", problem_of_error(Exit::bad_input, {"tensor n", "I64"}, [&] { stored_values(input, all.tensors[1]); }));
    }
}

TEST_F(WeightsFile, HostileSafetensorsAreRefusedInOneLine) {
    const std::string good = entry("U8", "4", "0,4");
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"", "no object of JSON"},
        {"[1]", "no object of JSON"},
        {"{\"\xff\":1}", "no object of JSON"},
        {std::string(1 << 20, '['), "nested deeper"},
        {R"({"a":{"shape":[[1]]}})", "nested deeper"},
        {R"({"a":1})", "described by no object"},
        {R"({"a":)" + good + R"(,"a":)" + good + "}", "names tensor a twice"},
        {R"({"a":)" + entry("U8", "-1", "0,4") + "}", "no good shape"},
        {R"({"a":)" + entry("U8", "1.5", "0,4") + "}", "no good shape"},
        {R"({"a":)" + entry("U8", "18446744073709551615", "0,4") + "}", "no good shape"},
        {R"({"a":)" + entry("U8", "1099511627776,1099511627776", "0,4") + "}", "has 4 bytes"},
        {R"({"a":)" + entry("F64", "4611686018427387904", "0,0") + "}", "has 0 bytes"},
        {R"({"a":)" + entry("U8", "4", "0") + "}", "lies beyond"},
        {R"({"a":)" + entry("U8", "4", "4,0") + "}", "lies beyond"},
        {R"({"a":)" + entry("U8", "100000000000", "0,100000000000") + "}", "lies beyond the 4 bytes"},
        {R"({"a":)" + entry("F32", "4", "0,4") + "}", "of shape [4] has 4 bytes"},
        {R"({"a":)" + entry("F4", "8", "0,4") + "}", "type 'F4', which is not known"},
        {R"({"a":{"shape":[4],"data_offsets":[0,4]}})", "type '', which is not known"},
        {R"({"a":)" + good + R"(,"b":)" + entry("U8", "2", "1,3") + "}", "overlaps another"},
        {R"({"a":)" + good + R"(,"b":)" + good + "}", "overlaps another"},
        {R"({"a":)" + entry("U8", "3", "1,4") + "}", "follows a hole"},
        {R"({"a":)" + entry("U8", "3", "0,3") + "}", "1 bytes that belong to no tensor"},
        {R"({"a":)" + entry("BF16", "2", "0,4") + "}", "has the value"}};
    for (const auto& [header, words] : cases)
        EXPECT_EQ("", refused(with_header(header, "\x80\x7f\x80\x7f"), {"x.safetensors", words}))
            << header.substr(0, 80);
    EXPECT_EQ("", refused(with_header("{}", "", 3), {"claims a header of 3 bytes"}));
    EXPECT_EQ("", refused(with_header("{}", "", uint64_t(1) << 63), {"claims a header of 9223372036854775808 bytes"}));
    write_file(dir_.path("x.onnx"), "\x08\x08 weights");
    EXPECT_EQ("", refused(dir_.path("x.onnx"), {"x.onnx: ONNX files are not read", "safetensors"}));
    write_file(dir_.path("x.safetensors"), "1234567");
    EXPECT_EQ("", refused(dir_.path("x.safetensors"), {"fewer than 8 bytes"}));
    EXPECT_EQ("", refused(dir_.path(), {"not a regular file"}));
}

// The parser had a callback, so it looked at all values of an object after each object in it. A
// file of 1.8 MB took half a minute.
TEST_F(WeightsFile, SafetensorsTakeTheTimeOfTheirBytes) {
    const auto seconds = [&](const std::string& other) {  // 500 times, beside 100,000 numbers
        std::string metadata;
        for (int i = 0; i < 100'000; ++i) metadata += "\"" + std::to_string(i) + "\":0,";
        for (int i = 0; i < 500; ++i) metadata += "\"x" + std::to_string(i) + "\":" + other + ",";
        metadata.pop_back();
        const InputBytes file(with_header("{\"__metadata__\":{" + metadata + "}}"));
        const std::clock_t start = std::clock();
        EXPECT_EQ(stored_tensors(file).metadata.size(), other == "\"\"" ? 500U : 0U);
        return double(std::clock() - start) / CLOCKS_PER_SEC;
    };
    const double texts = seconds("\"\""), objects = seconds("{}");
    EXPECT_LT(objects, 8 * texts) << texts << " s with texts instead of objects";
}

TEST_F(WeightsFile, FilesOfTorchSaveHaveTheirTensors) {
    std::vector<float> weight(100), bias(10);
    for (size_t i = 0; i < 100; ++i) weight[i] = float(i) / 128;
    for (size_t i = 0; i < 10; ++i) bias[i] = float(i) / 16;
    for (const char* name : {"linear.pth", "linear-old.pth"}) {
        const InputBytes file(std::string("tests/golden/weights/") + name);
        const StoredTensors all = stored_tensors(file);
        ASSERT_EQ(all.tensors.size(), 2U) << name;
        EXPECT_EQ(all.tensors[0].name, "fc.weight");
        EXPECT_EQ(all.tensors[0].shape, (std::vector<int64_t>{10, 10}));
        EXPECT_EQ(stored_values(file, all.tensors[0]), weight) << name;
        EXPECT_EQ(stored_values(file, all.tensors[1]), bias) << name;
    }
}

TEST_F(WeightsFile, StridesAndOffsetsOfViewsAreFollowed) {
    std::string values;
    for (int i = 0; i < 24; ++i) values += std::string("\0\0", 2) + char(i) + '\0';
    write_file(dir_.path("x"), std::string(8, 'x') + values);
    const InputBytes file(dir_.path("x"));
    const auto read = [&](std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t first) {
        std::vector<int> numbers;
        for (const float v : stored_values(file, {"t", "F32", std::move(shape), std::move(strides), 8 + 4 * first}))
            numbers.push_back(int(std::bit_cast<uint32_t>(v) >> 16));
        return numbers;
    };
    EXPECT_EQ(read({2, 3}, {3, 1}, 0), (std::vector<int>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(read({2, 3}, {1, 2}, 1), (std::vector<int>{1, 3, 5, 2, 4, 6})) << "transposed";
    EXPECT_EQ(read({2, 2, 2}, {0, 12, 5}, 3), (std::vector<int>{3, 8, 15, 20, 3, 8, 15, 20})) << "expanded";
    EXPECT_EQ(read({}, {}, 7), (std::vector<int>{7}));
    EXPECT_EQ(read({0, 3}, {3, 1}, 0), (std::vector<int>{}));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"small part of a large one", "clone()"},
                                   [&] { stored_values(file, {"t", "F32", {2}, {23}, 8}); }));
}

// A file of a few bytes would otherwise take memory for any shape.
TEST_F(WeightsFile, ATensorHasAtMostTheElementsOfTheFile) {
    write_file(dir_.path("x"), std::string(4 * 12, '\0'));
    const InputBytes file(dir_.path("x"));
    const auto read = [&](std::vector<int64_t> shape, std::vector<int64_t> strides) {
        return stored_values(file, {"t", "F32", std::move(shape), std::move(strides), 0}).size();
    };
    const auto refused = [&](std::vector<int64_t> shape, std::vector<int64_t> strides) {
        return problem_of_error(Exit::bad_input, {"tensor t", "several times", "clone()"},
                                [&] { read(std::move(shape), std::move(strides)); });
    };
    EXPECT_EQ(read({3, 4}, {4, 1}), 12U);
    EXPECT_EQ(read({1, 12}, {0, 1}), 12U) << "the step of a single row says nothing";
    EXPECT_EQ("", refused({2}, {0}));
    EXPECT_EQ("", refused({3, 5}, {3, 1}));
    EXPECT_EQ("", refused({int64_t(1) << 40, 64}, {0, 0}));
}

TEST_F(WeightsFile, HostileFilesOfTorchSaveAreRefusedInOneLine) {
    const Finished made = run("${PYTHON:-/usr/bin/python3} -W ignore tests/support/torch_files.py " + dir_.path());
    ASSERT_EQ(made.code, 0) << made.err;
    std::istringstream lines(made.out);
    int files = 0;
    for (std::string line; std::getline(lines, line); ++files) {
        const std::string name = line.substr(0, line.find('\t')), words = line.substr(line.find('\t') + 1);
        if (words.empty())
            EXPECT_EQ(tensors_in(dir_.path(name)).tensors.size(), 2U) << name;
        else
            EXPECT_EQ("", refused(dir_.path(name), {name, words})) << name;
    }
    EXPECT_GT(files, 40);
    EXPECT_FALSE(std::filesystem::exists(dir_.path("ran"))) << "nothing in a file is executed";
}

// The first eight bytes of a safetensors file are a length, which may begin as another format does.
TEST_F(WeightsFile, TwoFormatsInOneFileAreToldByItsName) {
    for (const std::string mark : {"PK\3\4", "\x80\2\x8a\x0a"}) {
        const std::string head = mark + std::string(4, '\0') + "{";
        write_file(dir_.path("x.bin"), head);
        EXPECT_EQ("", refused(dir_.path("x.bin"), {"may be safetensors or of torch.save()"}));
        write_file(dir_.path("x.safetensors"), head);
        const std::string said = problem_of_error(Exit::bad_input, {"x.safetensors", "header"},
                                                  [&] { tensors_in(dir_.path("x.safetensors")); });
        EXPECT_EQ("", said);
    }
}

TEST_F(WeightsFile, TheDictOfACheckpointIsFoundOrNamed) {
    const std::string checkpoint = "tests/golden/weights/mnist-linear.pth";
    EXPECT_EQ(tensors_in(checkpoint).tensors.at(0).name, "module.fc.weight");
    EXPECT_EQ(tensors_in(checkpoint, "model").tensors.size(), 2U);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"key 'net'", "epoch, best, model"},
                                   [&] { tensors_in(checkpoint, "net"); }));
    EXPECT_EQ("", problem_of_error(Exit::usage, {"--key net", "torch.save()"},
                                   [&] { tensors_in("tests/golden/weights/mnist-conv.safetensors", "net"); }));
}

StoredTensors named(const std::vector<std::string>& names) {
    StoredTensors all;
    for (const std::string& name : names) all.tensors.push_back({name, "F32", {2}, {1}});
    return all;
}

TEST_F(WeightsFile, PrefixesAreDroppedFromAllNames) {
    const auto names = [](StoredTensors all, const std::string& prefix) {
        drop_prefixes(all, prefix, "x.pth");
        std::string text;
        for (const StoredTensor& t : all.tensors) text += t.name + " ";
        return text;
    };
    EXPECT_EQ(names(named({"module.a", "module.b"}), ""), "a b ");
    EXPECT_EQ(names(named({"module._orig_mod.module.a"}), ""), "a ");
    EXPECT_EQ(names(named({"module.a", "b"}), ""), "module.a b ") << "no prefix of all";
    EXPECT_EQ(names(named({"net.a", "head.b", "net.c"}), "net."), "a c ");
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"x.pth", "'nut.'", "--prefix"},
                                   [&] { names(named({"net.a"}), "nut."); }));
}

TEST_F(WeightsFile, MissingMisshapenAndUnexpectedTensorsAreListed) {
    const std::vector<TorchEntry> layout = {
        {"a", {2}, 0, {}}, {"b", {3, 4}, 1, {}}, {"c", {2}, 2, {}}, {"bn.num_batches_tracked", {}, none, {}}};
    const StoredTensors all = named({"x", "b", "a", "x.num_batches_tracked"});
    const WeightsMatch match = match_weights(layout, all);
    EXPECT_EQ(match.summary, "1 missing, 1 misshapen, 1 unexpected");
    EXPECT_EQ(match.problems, (std::vector<std::string>{"  misshapen  b model [3, 4], file [2]",
                                                        "  missing    c model [2]", "  unexpected x file [2]"}));
    EXPECT_EQ(match_weights({layout[0]}, named({"a"})).problems.size(), 0U) << "a counter may be missing";
}

}  // namespace
}  // namespace convoy::test
