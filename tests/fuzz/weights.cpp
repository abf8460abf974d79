// Good files of weights, changed or replaced by a fuzzer's bytes; run from the repository's root.
#include "tests/fuzz/weights.h"

#include "data/safetensors.h"
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
    read_weights(dir + "/x.pth", good, bytes);
}

void read_old_pth(const std::string& dir, Bytes bytes) {
    static const std::string good = read_file("tests/golden/weights/linear-old.pth");
    read_weights(dir + "/x.pth", good, bytes);
}

}  // namespace convoy::test
