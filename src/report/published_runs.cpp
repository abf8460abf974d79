#include "report/published_runs.h"

#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/text.h"

namespace convoy {
namespace {

constexpr const char* columns =
    "source,model,image_size,classes,global_batch,nodes,gpus,step_seconds,epoch_images,epoch_seconds,utilisation";

/// Returns false if a word is not a number above 0.
bool read_numbers(PublishedRun& r, const std::vector<std::string>& words) {
    try {
        r.classes = std::stoll(words[3]);
        r.global_batch = std::stoll(words[4]);
        r.nodes = std::stoll(words[5]);
        r.gpus = std::stoll(words[6]);
        r.step_seconds = std::stod(words[7]);
        r.epoch_images = std::stoll(words[8]);
        r.epoch_seconds = std::stod(words[9]);
    } catch (const std::exception&) {
        return false;
    }
    return r.classes > 0 && r.global_batch > 0 && r.nodes > 0 && r.gpus > 0 && r.step_seconds > 0 &&
           r.epoch_images > 0 && r.epoch_seconds > 0;
}

}  // namespace

std::vector<PublishedRun> read_published_runs(const std::string& path) {
    std::istringstream in(text_of_input(path, 1 << 20, "its lines are " + std::string(columns)));
    std::vector<PublishedRun> runs;
    bool header = true;
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
        if (line.empty() || line[0] == '#' || std::exchange(header, false)) continue;
        const std::vector<std::string> words = split(printable(line), ',');
        PublishedRun r;
        if (words.size() != 11 || !read_numbers(r, words))
            fail(Exit::bad_input, path + ":" + std::to_string(number) + ": is not " + columns);
        r.source = words[0];
        r.model = words[1];
        r.image_size = words[2];
        r.utilisation = words[10];
        runs.push_back(r);
    }
    return runs;
}

}  // namespace convoy
