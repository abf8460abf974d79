#include "backend/chips.h"

#include <vector>

#include "base/error.h"
#include "base/nearest_name.h"

namespace convoy {
namespace {

std::vector<std::string> names_with(const char* another) {
    std::vector<std::string> names;
    for (const Chip& c : known_chips) names.emplace_back(c.name);
    if (*another) names.emplace_back(another);
    return names;
}

}  // namespace

std::string chip_names(const char* another) { return list_of(names_with(another)); }

const Chip& find_chip(const std::string& name, const char* another) {
    for (const Chip& c : known_chips)
        if (name == c.name) return c;
    const std::vector<std::string> names = names_with(another);
    fail(Exit::usage, "--chip " + name + " is unknown" + unknown_choice(name, names, list_of(names)));
}

}  // namespace convoy
