// Good files of weights, changed or replaced by a fuzzer's bytes; run from the repository's root.
#include "tests/fuzz/weights.h"

#include <string_view>

#include "data/safetensors.h"
#include "data/torch_pickle.h"
#include "data/weights_file.h"
#include "tests/fuzz/pictures.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

/// Reads all tensors of a file, good or changed.
void read_weights(const std::string& path, const std::string& good, Bytes bytes) {
    const bool whole = !bytes.empty() && (bytes[0] & 1);
    if (!bytes.empty()) bytes = bytes.subspan(1);
    write_file(path, whole ? std::string(bytes.begin(), bytes.end()) : changed(good, bytes));
    const InputBytes file(path);
    for (const StoredTensor& t : stored_tensors(file).tensors) {
        if (t.type != "I64") stored_values(file, t);
    }
}

/// Returns pickles of the operations that `bytes` select. Random bytes are seldom valid pickles.
/// Three operations occur several times, because most pickles need them.
std::string pickles_of(Bytes bytes) {
    using namespace std::string_view_literals;
    constexpr std::string_view short_ones =
        "N\x88]})(((aesut\x85\x85\x85\x86\x87"
        "bRQ";
    constexpr std::string_view long_ones[] = {"K\1"sv,
                                              "K\x0a"sv,
                                              "U\1a"sv,
                                              "U\x0dlittle_endian"sv,
                                              "U\7storage"sv,
                                              "q\0"sv,
                                              "h\0"sv,
                                              "ctorch\nFloatStorage\n"sv,
                                              "ctorch._utils\n_rebuild_tensor_v2\n"sv,
                                              "ccollections\nOrderedDict\n"sv,
                                              ".\x80\2"sv,
                                              ".\x80\2"sv,
                                              ".\x80\2"sv};
    constexpr size_t shorter = short_ones.size(), all = shorter + std::size(long_ones);
    std::string pickles = "\x80\2";
    for (const uint8_t byte : bytes) {
        const size_t i = byte % all;
        pickles += i < shorter ? short_ones.substr(i, 1) : long_ones[i - shorter];
    }
    return pickles + ".";
}

/// Reads pickles alone: those of a whole file of the old form, or one with a dict of tensors.
void read_pickles(Bytes bytes) {
    const bool old = bytes[0] & 1;
    constexpr std::string_view head = "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2M\xe9\3.";
    const std::string pickles = (old ? std::string(head) : "") + pickles_of(bytes.subspan(1));
    const std::span<const uint8_t> given(reinterpret_cast<const uint8_t*>(pickles.data()), pickles.size());
    if (old)
        read_old_torch_pickles(given, "x.pth", "");
    else
        read_torch_pickle(given, "x.pth", "");
}

}  // namespace

void read_safetensors(const std::string& dir, Bytes bytes) {
    static const std::string good = [] {
        const std::vector<unsigned char> zeros(40);
        const std::vector<unsigned char> file = safetensors_file(
            {{"fc.weight", "F32", {2, 5}, zeros}, {"fc.bias", "BF16", {20}, zeros}, {"n", "I64", {5}, zeros}},
            {{"format", "pt"}});
        return std::string(file.begin(), file.end());
    }();
    read_weights(dir + "/x.safetensors", good, bytes);
}

void read_pth(const std::string& dir, Bytes bytes) {
    static const std::string good = read_file("tests/golden/weights/linear.pth");
    if (!bytes.empty() && (bytes[0] & 2)) return read_pickles(bytes);
    read_weights(dir + "/x.pth", good, bytes);
}

void read_old_pth(const std::string& dir, Bytes bytes) {
    static const std::string good = read_file("tests/golden/weights/linear-old.pth");
    read_weights(dir + "/x.pth", good, bytes);
}

}  // namespace convoy::test
