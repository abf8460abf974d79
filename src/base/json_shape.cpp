#include "base/json_shape.h"

#include <vector>

namespace convoy {

bool has_modest_shape(std::string_view json) {
    constexpr size_t deepest = 16, most_names = 1000;
    std::vector<size_t> names = {0};  // [open objects and lists + 1]; the first counts names outside
    bool in_text = false;
    for (size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (in_text) {
            if (c == '\\') ++i;
            in_text = c != '"';
        } else if (c == '"') {
            in_text = true;
        } else if (c == '{' || c == '[') {
            if (names.size() > deepest) return false;
            names.push_back(0);
        } else if ((c == '}' || c == ']') && names.size() > 1) {
            names.pop_back();
        } else if (c == ':' && ++names.back() > most_names) {
            return false;
        }
    }
    return true;
}

}  // namespace convoy
