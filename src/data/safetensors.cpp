#include "data/safetensors.h"

#include <nlohmann/json.hpp>

namespace convoy {

std::vector<unsigned char> safetensors_file(const std::vector<SafeTensor>& tensors,
                                            const std::map<std::string, std::string>& metadata) {
    nlohmann::ordered_json header;
    header["__metadata__"] = metadata;
    size_t at = 0;
    for (const SafeTensor& t : tensors) {
        header[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {at, at + t.bytes.size()}}};
        at += t.bytes.size();
    }
    std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the values
    std::vector<unsigned char> file;
    file.reserve(8 + text.size() + at);
    for (int byte = 0; byte < 8; ++byte) file.push_back(uint8_t(uint64_t(text.size()) >> (8 * byte)));
    file.insert(file.end(), text.begin(), text.end());
    for (const SafeTensor& t : tensors) file.insert(file.end(), t.bytes.begin(), t.bytes.end());
    return file;
}

}  // namespace convoy
