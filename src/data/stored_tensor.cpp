#include "data/stored_tensor.h"

#include "base/text.h"

namespace convoy {

int bytes_of_type(const std::string& type) {
    static const std::map<std::string, int> bytes = {
        {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"U16", 2}, {"I16", 2}, {"F16", 2},
        {"BF16", 2}, {"U32", 4}, {"I32", 4}, {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}, {"C64", 8}};
    const auto found = bytes.find(type);
    return found == bytes.end() ? 0 : found->second;
}

int64_t count_of(const std::vector<int64_t>& shape) {
    constexpr int64_t most = int64_t(1) << 47;
    int64_t count = 1;
    bool too_many = false;
    for (const int64_t side : shape) {
        if (side < 0) return -1;
        if (side == 0) return 0;
        too_many = too_many || side > most / count;
        if (!too_many) count *= side;
    }
    return too_many ? -1 : count;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
    return strides;
}

std::string shape_text(const std::vector<int64_t>& shape) {
    std::string text;
    for (const int64_t side : shape) text += (text.empty() ? "" : ", ") + std::to_string(side);
    return "[" + text + "]";
}

}  // namespace convoy
