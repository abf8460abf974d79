#include "cli/recorded_options.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/folder.h"
#include "base/project.h"
#include "base/shell_word.h"
#include "base/shorten.h"
#include "base/text.h"
#include "run/configuration.h"
#include "run/metrics_file.h"
#include "train/checkpoint.h"

namespace convoy {
namespace {

/// Returns the value of an option on a command line; empty if it is not there.
std::string value_of(const std::vector<std::string>& args, const std::string& option) {
    for (size_t i = 0; i < args.size(); ++i) {
        if (args[i] == option) return i + 1 < args.size() ? args[i + 1] : "";
        if (args[i].starts_with(option + "=")) return args[i].substr(option.size() + 1);
    }
    return "";
}

/// Returns true if --data or the batch is missing. Assumes that a recipe gives the batch.
bool may_be_incomplete(const std::vector<std::string>& args) {
    const auto given = [&](const char* option) { return !value_of(args, option).empty(); };
    return !given("--data") || !(given("--batch-size") || given("--batch-per-rank") || given("--config"));
}

/// Returns the options of the run in `folder`, from its metrics. If these are missing, takes the
/// newest checkpoint. Returns no options if there is no run.
RecordedOptions recorded_in(const std::string& folder) {
    RecordedOptions recorded{.path = folder + "/metrics.h5"};
    try {
        if (is_there(recorded.path)) {
            const MetricsFile file = read_metrics(recorded.path);
            if (const auto found = file.run.find("configuration"); found != file.run.end())
                recorded.options = found->second;
            return recorded;
        }
        for (const std::string& path : checkpoints_of(folder)) try {
                return {.path = path, .options = read_configuration(path)};
            } catch (const Error&) {  // an older one may be sound
            }
    } catch (const Error& reason) {
        recorded.failure = reason.what();
    }
    return recorded;
}

/// Leaves out values in a list of variables: "ALL,A=1,B" becomes "ALL,A,B". A value in quotes may
/// hold separators, so what follows the first quote is left out.
std::string names_in_list(const std::string& list, char separator) {
    std::string names;
    std::istringstream items(list.substr(0, list.find_first_of("'\"")));
    for (std::string item; std::getline(items, item, separator);)
        names += (names.empty() ? "" : std::string(1, separator)) + item.substr(0, item.find('='));
    return names;
}

/// Returns the words of the command that started this process's parent. Empty if the parent is
/// another user's or has ended.
std::vector<std::string> words_of_parent() {
    std::vector<std::string> words;
    std::ifstream file("/proc/" + std::to_string(::getppid()) + "/cmdline");
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
    return words;
}

/// Returns "mpirun -np 2 ": the launcher's command as it was typed, without values of variables. If
/// this process's parent is no launcher, returns the usual command for this number of ranks.
std::string launcher_of(const std::vector<std::string>& args, int ranks) {
    static const std::set<std::string> launchers = {"mpirun", "mpiexec", "orterun", "prterun", "srun"};
    std::vector<std::string> words = words_of_parent();
    const size_t own = args.size() + 2;  // the executable and `train` before them
    const bool typed = words.size() > own && std::equal(args.rbegin(), args.rend(), words.rbegin()) &&
                       launchers.contains(words[0].substr(words[0].rfind('/') + 1));
    if (typed)
        words.resize(words.size() - own);
    else if (ranks == 1)
        words = {};
    else if (!std::getenv("OMPI_COMM_WORLD_RANK") && std::getenv("SLURM_PROCID"))
        words = {"srun", "-n", std::to_string(ranks)};
    else
        words = {"mpirun", "-np", std::to_string(ranks)};
    std::string text;
    for (const std::string& word : without_values(words)) text += shell_word(word) + " ";
    return text;
}

}  // namespace

std::vector<std::string> without_values(const std::vector<std::string>& launcher) {
    std::vector<std::string> kept;
    std::string before;
    bool of_env = false;  // words of `env A=1 B=2 …`
    for (const std::string& word : launcher) {
        const std::string list_option = word.starts_with("--env=") ? "--env=" : "--export=";
        if (before == "-x" || before == "--x")
            kept.push_back(word.substr(0, word.find('=')));
        else if (before == "--export" || before == "--env")
            kept.push_back(names_in_list(word, ','));
        else if (word.starts_with(list_option))
            kept.push_back(list_option + names_in_list(word.substr(list_option.size()), ','));
        else if (before == "mca_base_env_list")
            kept.push_back(names_in_list(word, ';'));
        else if (!of_env || word.starts_with('-') || word.find('=') == std::string::npos)
            kept.push_back(word);
        of_env = of_env || word.substr(word.rfind('/') + 1) == "env";
        before = word;
    }
    return kept;
}

RecordedOptions recorded_options(Comm& comm, const std::vector<std::string>& args) {
    const std::string folder = value_of(args, "--output");
    RecordedOptions recorded;
    if (value_of(args, "--resume") != "auto" || folder.empty() || !may_be_incomplete(args)) return recorded;
    if (comm.root()) recorded = recorded_in(folder);
    for (std::string* text : {&recorded.path, &recorded.options, &recorded.failure}) *text = comm.broadcast(*text);
    return recorded;
}

std::string take_recorded(const RecordedOptions& recorded, const boost::program_options::options_description& all,
                          const TrainOptions& given, const std::vector<std::set<std::string>>& alternatives,
                          ConfiguredValues& values) {
    if (recorded.path.empty()) return "";
    if (!recorded.failure.empty()) fail(Exit::bad_input, recorded.failure);
    if (recorded.options.empty() && !given.data.empty()) return "";  // a new run begins
    if (recorded.options.empty())
        fail(Exit::usage, recorded.path + ": holds no run to continue; check --output, or give --data and the other " +
                              "options of the training");
    if (given.data.empty() && config_value(recorded.options, "no-environment") == "true")
        fail(Exit::usage, recorded.path + ": was recorded with --no-environment, without whole paths; give --data too");
    ConfigPairs options = config_pairs(recorded.options);
    std::erase_if(options, [](const auto& o) { return o.first == "resume" || writing_options().contains(o.first); });
    std::string note = "from " + recorded.path + "; those of the command line win";
    const std::vector<std::string> unknown = store_recorded(all, recorded.path, options, alternatives, values);
    constexpr size_t most = 10;
    for (size_t i = 0; i < std::min(most, unknown.size()); ++i)
        note += "; this version has no --" + shortened(unknown[i]);
    if (unknown.size() > most) note += formatted(", and not %zu others", unknown.size() - most);
    if (given.log_dir.empty() && !config_value(recorded.options, "log-dir").empty())
        note += "; --log-dir is not taken from there";
    return note;
}

std::string continuing_command(const ParsedOptions& parsed, const std::vector<std::string>& args,
                               const std::string& folder, int ranks) {
    const TrainOptions& o = parsed.options;
    std::string text =
        launcher_of(args, ranks) + shell_word(own_command()) + " train --resume auto --output " + shell_word(folder);
    if (o.run.no_environment) text += " --data " + shell_word(o.data);  // its record lacks the whole path
    if (!o.log_dir.empty()) text += " --log-dir " + shell_word(o.log_dir);
    return text;
}

}  // namespace convoy
