// The table of models: the name, the accepted image size and the builder of each.
#include "model/models.h"

#include <functional>

#include "base/nearest_name.h"

namespace convoy {
namespace {

struct Entry {
    const char* name;
    int h, w, c;  // 0: any
    std::function<Graph(const ModelOptions&)> build;
};

const std::vector<Entry>& table() {
    static const std::vector<Entry> entries = {
        {"pyramidnet", 0, 0, 3, [](const ModelOptions& o) { return build_pyramidnet(o, 17); }},
        {"pyramidnet110", 0, 0, 3, [](const ModelOptions& o) { return build_pyramidnet(o, 18); }},
        {"resnet18", 0, 0, 3, build_resnet18},
        {"resnet34", 0, 0, 3, build_resnet34},
        {"resnet50", 0, 0, 3, build_resnet50},
        {"resnet101", 0, 0, 3, build_resnet101},
        {"resnet152", 0, 0, 3, build_resnet152},
        {"airbench94", 32, 32, 3, [](const ModelOptions& o) { return build_airbench94(o, false); }},
        {"airbench94-muon", 32, 32, 3, [](const ModelOptions& o) { return build_airbench94(o, true); }},
        {"mnist-conv", 28, 28, 1, build_mnist_conv},
        {"mnist-linear", 28, 28, 1, build_linear},
        {"linear", 1, 1, 10, build_linear},
    };
    return entries;
}

/// Returns "32x32x3", or "any size with 3 channels" if `h` and `w` are 0.
std::string size_text(int h, int w, int c) {
    if (h == 0) return "any size with " + std::to_string(c) + " channels";
    return std::to_string(h) + "x" + std::to_string(w) + "x" + std::to_string(c);
}

const Entry& entry_of(const std::string& name) {
    for (const Entry& e : table())
        if (name == e.name) return e;
    std::string names;
    for (const std::string& known : model_names()) names += (names.empty() ? "" : ", ") + known;
    fail(Exit::usage, "--model " + name + " is unknown" + unknown_choice(name, model_names(), "one of " + names));
}

}  // namespace

Graph build_model(const ModelOptions& o) {
    const Entry& e = entry_of(o.name);
    if ((e.h && e.h != o.h) || (e.w && e.w != o.w) || (e.c && e.c != o.c))
        fail(Exit::bad_input, "model " + o.name + " takes images of " + size_text(e.h, e.w, e.c) + ", not of " +
                                  size_text(o.h, o.w, o.c) +
                                  " (height x width x channels); choose another --model, --data or --image-size");
    return e.build(o);
}

ModelOptions usual_images(const std::string& name, Shape any) {
    ModelOptions o{name, any.h, any.w, any.c, 10};
    for (const Entry& e : table())
        if (name == e.name && e.h > 0) {
            o.h = e.h;
            o.w = e.w;
            o.c = e.c;
        }
    return o;
}

std::vector<std::string> model_names() {
    std::vector<std::string> names;
    for (const Entry& e : table()) names.push_back(e.name);
    return names;
}

}  // namespace convoy
