#include "data/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/shorten.h"

namespace convoy {
namespace {

using Json = nlohmann::json;

constexpr int64_t most_header_bytes = 16 << 20;  // resnet152 has 0.1 MB

[[noreturn]] void refuse(const InputBytes& file, const std::string& what) {
    fail(Exit::bad_input, file.path() + ": " + what + "; it is no safetensors file, or damaged: get it again");
}

/// Refuses what JSON allows but the format does not: deep nesting, and a name that occurs twice.
/// Looks at each value once. With a parser callback, the time would grow with the square of the
/// number of tensors.
class HeaderCheck : public nlohmann::json_sax<Json> {
public:
    explicit HeaderCheck(const InputBytes& file) : file_(file) {}
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }
    bool number_float(number_float_t, const string_t&) override { return true; }
    bool string(string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool start_object(size_t) override {
        constexpr size_t most_objects = 8192;  // resnet152 has 932 tensors
        if (++objects_ > most_objects) refuse(file_, "names more than 8192 tensors");
        return go_deeper();
    }
    bool start_array(size_t) override { return go_deeper(); }
    bool key(string_t& name) override {
        if (depth_ == 1 && !names_.insert(name).second) refuse(file_, "names tensor " + shortened(name) + " twice");
        return true;
    }
    bool end_object() override { return go_up(); }
    bool end_array() override { return go_up(); }
    bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

private:
    bool go_deeper() {
        constexpr int deepest = 3;  // {"name": {"shape": [1]}}
        if (++depth_ > deepest) refuse(file_, "has a header that is nested deeper than tensors are");
        return true;
    }
    bool go_up() {
        --depth_;
        return true;
    }

    const InputBytes& file_;
    std::set<std::string> names_;
    size_t objects_ = 0;
    int depth_ = 0;
};

Json parse_header(const InputBytes& file, const std::string& text) {
    HeaderCheck check(file);
    const Json header = Json::sax_parse(text, &check) ? Json::parse(text, nullptr, false) : Json();
    if (!header.is_object()) refuse(file, "has a header that is no object of JSON");
    return header;
}

/// Returns the list of whole numbers at `key` of an entry; refuses negative ones.
std::vector<int64_t> numbers(const InputBytes& file, const std::string& name, const Json& entry, const char* key) {
    std::vector<int64_t> list;
    const auto found = entry.find(key);
    if (found != entry.end() && found->is_array()) {
        for (const Json& number : *found) {
            constexpr uint64_t most = uint64_t(1) << 62;
            if (!number.is_number_unsigned() || number.get<uint64_t>() > most) break;
            list.push_back(number.get<int64_t>());
        }
        if (list.size() == found->size()) return list;
    }
    refuse(file, "tensor " + shortened(name) + " has no good " + key);
}

/// Returns a tensor. Its offset counts from the first value.
StoredTensor tensor_of(const InputBytes& file, const std::string& name, const Json& entry, int64_t value_bytes) {
    const auto refuse_tensor = [&](const std::string& what) { refuse(file, "tensor " + shortened(name) + " " + what); };
    if (!entry.is_object()) refuse_tensor("is described by no object");
    StoredTensor t{.name = name, .type = {}, .shape = numbers(file, name, entry, "shape"), .strides = {}};
    const std::vector<int64_t> offsets = numbers(file, name, entry, "data_offsets");
    const auto type = entry.find("dtype");
    if (type != entry.end() && type->is_string()) t.type = type->get<std::string>();
    const int width = bytes_of_type(t.type);
    if (width == 0) refuse_tensor("is of type '" + shortened(t.type, 40) + "', which is not known here");
    const int64_t count = count_of(t.shape);
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > value_bytes)
        refuse_tensor("lies beyond the " + std::to_string(value_bytes) + " bytes of values");
    if (count < 0 || count > (int64_t(1) << 62) / width || count * width != offsets[1] - offsets[0])
        refuse_tensor("of shape " + shortened(shape_text(t.shape), 80) + " has " +
                      std::to_string(offsets[1] - offsets[0]) + " bytes");
    t.strides = dense_strides(t.shape);
    t.offset = offsets[0];
    return t;
}

/// Refuses holes, overlaps, and bytes after the last value.
void check_order(const InputBytes& file, const std::vector<StoredTensor>& tensors, int64_t value_bytes) {
    std::vector<const StoredTensor*> in_order;
    for (const StoredTensor& t : tensors) in_order.push_back(&t);
    const auto bytes = [](const StoredTensor& t) { return count_of(t.shape) * bytes_of_type(t.type); };
    std::ranges::sort(in_order, {}, [&](const StoredTensor* t) { return std::pair(t->offset, bytes(*t)); });
    int64_t end = 0;
    for (const StoredTensor* t : in_order) {
        if (t->offset != end)
            refuse(file, "tensor " + shortened(t->name) + (t->offset < end ? " overlaps another" : " follows a hole"));
        end += bytes(*t);
    }
    if (end != value_bytes)
        refuse(file, "has " + std::to_string(value_bytes - end) + " bytes that belong to no tensor");
}

}  // namespace

StoredTensors safetensors_in(const InputBytes& file) {
    uint8_t length[8] = {};
    if (file.size() < int64_t(sizeof length)) refuse(file, "has fewer than 8 bytes");
    file.read(0, sizeof length, length);
    uint64_t header_bytes = 0;
    for (int i = 8; i-- > 0;) header_bytes = header_bytes << 8 | length[i];
    if (header_bytes > uint64_t(std::min<int64_t>(most_header_bytes, file.size() - int64_t(sizeof length))))
        refuse(file, "claims a header of " + std::to_string(header_bytes) + " bytes");
    std::string text(header_bytes, ' ');
    file.read(sizeof length, int64_t(header_bytes), text.data());
    const int64_t first = int64_t(sizeof length + header_bytes), value_bytes = file.size() - first;
    StoredTensors all;
    const Json header = parse_header(file, text);
    for (const auto& [name, entry] : header.items()) {
        if (name != "__metadata__") {
            all.tensors.push_back(tensor_of(file, name, entry, value_bytes));
            continue;
        }
        for (const auto& [key, value] : entry.items())
            if (value.is_string()) all.metadata[key] = value.get<std::string>();
    }
    check_order(file, all.tensors, value_bytes);
    for (StoredTensor& t : all.tensors) t.offset += first;
    return all;
}

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
