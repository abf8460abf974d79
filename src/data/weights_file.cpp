#include "data/weights_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/bf16.h"
#include "base/error.h"
#include "base/shorten.h"
#include "data/safetensors.h"
#include "data/torch_file.h"

namespace convoy {
namespace {

template <class T> T loaded(const uint8_t* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// Returns an element as a double, which holds all four types exactly.
double element(const std::string& type, const uint8_t* from) {
    if (type == "F32") return loaded<float>(from);
    if (type == "F64") return loaded<double>(from);
    if (type == "F16") return double(float(loaded<_Float16>(from)));
    return to_float(loaded<bf16>(from));
}

/// Returns the number of elements from the first to the last in the file.
int64_t span_of(const StoredTensor& t) {
    int64_t last = 0;
    for (size_t i = 0; i < t.shape.size(); ++i) last += (t.shape[i] - 1) * t.strides[i];
    return last + 1;
}

}  // namespace

StoredTensors stored_tensors(const InputBytes& file, const std::string& key) {
    std::array<uint8_t, 9> head{};
    file.read(0, std::min<int64_t>(file.size(), head.size()), head.data());
    const auto begins_with = [&](const std::array<uint8_t, 4>& mark) {
        return std::equal(mark.begin(), mark.end(), head.begin());
    };
    if (begins_with({0x89, 'H', 'D', 'F'}))
        fail(Exit::bad_input, file.path() +
                                  ": is an HDF5 file; a model file of Convoy needs no import, other files must be "
                                  "safetensors or of torch.save()");
    // A safetensors file begins with the length of its JSON, which may look like the mark of
    // another format. In a zip file, the method of compression stands in the place of the JSON's
    // bracket.
    const bool is_safetensors = file.path().ends_with(".safetensors");
    if (!is_safetensors && head[8] == '{' && (begins_with({'P', 'K', 3, 4}) || head[0] == 0x80))
        fail(Exit::bad_input,
             file.path() + ": may be safetensors or of torch.save(): name it .safetensors if it is that");
    if (!is_safetensors && begins_with({'P', 'K', 3, 4})) return torch_zip_tensors(file, key);
    if (!is_safetensors && head[0] == 0x80 && head[1] == 2) return old_torch_tensors(file, key);
    if (file.path().ends_with(".onnx"))
        fail(Exit::bad_input, file.path() + ": ONNX files are not read; give safetensors, or a file of torch.save()");
    if (!key.empty()) fail(Exit::usage, "--key " + key + " is for files of torch.save(); leave it out");
    return safetensors_in(file);
}

std::vector<float> stored_values(const InputBytes& file, const StoredTensor& t) {
    const auto refuse = [&](const std::string& what) {
        fail(Exit::bad_input, file.path() + ": tensor " + shortened(t.name) + " " + what);
    };
    if (t.type != "F16" && t.type != "BF16" && t.type != "F32" && t.type != "F64")
        refuse("is of type " + t.type + ", not F16, BF16, F32 or F64; convert it, as in net.float()");
    const int64_t count = count_of(t.shape), width = bytes_of_type(t.type);
    if (count <= 0) return {};
    const int64_t span = span_of(t);
    constexpr const char* advice = "; save a copy of it, as in tensor.clone()";
    constexpr int64_t most_gaps = 8;  // bounds memory: a slice of a much larger tensor must be copied first
    if (span / most_gaps > count) refuse(std::string("is a small part of a large one") + advice);
    // Without this check, memory would grow with the shape, not with the bytes of the file.
    if (span < count) refuse(std::string("has elements several times, as expand() makes them") + advice);
    std::vector<float> values(size_t(count), 0.0f);
    std::vector<uint8_t> bytes(size_t(span * width));
    file.read(t.offset, span * width, bytes.data());
    std::vector<int64_t> at(t.shape.size(), 0);
    int64_t place = 0;
    for (float& value : values) {
        const double read = element(t.type, &bytes[place * width]);
        value = float(read);
        if (!std::isfinite(value)) refuse("has the value " + std::to_string(read) + ", which f32 cannot hold");
        for (size_t i = at.size(); i-- > 0;) {  // the next element
            place += t.strides[i];
            if (++at[i] < t.shape[i]) break;
            place -= at[i] * t.strides[i];
            at[i] = 0;
        }
    }
    return values;
}

}  // namespace convoy
