#include "backend/cuda/tuned_plans.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "backend/gpu/algorithms.h"
#include "base/cache_folder.h"

namespace convoy::cuda {

float TunedPlan::time() const { return has_engine() || microseconds == untimed ? microseconds : missing; }

TunedPlans parse_tuned_plans(const std::string& text) {
    TunedPlans tuned;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t equals = line.find(" = ");
        if (equals == std::string::npos) continue;
        std::istringstream rest(line.substr(equals + 3));
        TunedPlan c;
        if (rest >> c.microseconds) {
            rest >> c.engine;
            tuned[line.substr(0, equals)] = c;
        }
    }
    return tuned;
}

std::string text_of(const TunedPlans& tuned) {
    std::ostringstream out;
    out.precision(9);  // exact for floats, so that a run with the cache compares the same times
    for (const auto& [key, c] : tuned) out << key << " = " << c.microseconds << ' ' << c.engine << '\n';
    return out.str();
}

std::string cache_path(const std::string& chip, const std::string& cudnn_version) {
    const std::string folder = cache_folder();
    if (folder.empty()) return "";
    std::string name = chip;
    std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '-');
    return folder + "/plans-4-" + name + "-cudnn-" + cudnn_version + ".txt";
}

}  // namespace convoy::cuda
