#include "backend/cuda/cudnn_text.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

namespace convoy::cuda {
namespace {

/// Returns " NAME=VALUE" for each of `fields` that is set and not in `without`, in order of name.
std::string text_of(const nlohmann::json& fields, std::initializer_list<const char*> without) {
    std::string text;
    for (const auto& [name, value] : fields.items())
        if (!value.is_null() && std::find(without.begin(), without.end(), name) == without.end())
            text += " " + name + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
    return text;
}

}  // namespace

std::string text_of_graph(const std::string& json) {
    nlohmann::json all = nlohmann::json::parse(json);  // not const, so that [] returns null for a missing key
    std::string text = "context" + text_of(all["context"], {"name", "sm_count"}) + "\n";
    for (const auto& node : all["nodes"])
        text += node["tag"].get<std::string>() + text_of(node["inputs"], {}) + " ->" + text_of(node["outputs"], {}) +
                ";" + text_of(node, {"tag", "name", "inputs", "outputs"}) + "\n";
    for (const auto& [name, tensor] : all["tensors"].items()) {
        std::string place = " slot " + tensor["uid"].dump();
        if (tensor["is_virtual"]) place = " virtual";
        if (tensor["is_pass_by_value"]) place = " value " + tensor["pass_by_value"]["value"].get<std::string>();
        text += "tensor " + name + " " + tensor["data_type"].get<std::string>() + " " + tensor["dim"].dump() +
                " stride " + tensor["stride"].dump() + place + "\n";
    }
    return text;
}

}  // namespace convoy::cuda
