#include "cli/sweep_spec.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/train_options.h"

namespace convoy {
namespace {
namespace po = boost::program_options;
using Words = std::vector<std::string>;

constexpr size_t most_runs = 1000;

/// An option, and the values to try.
struct Varied {
    std::string option;
    Words values;
};

OptionsOf command(int64_t& ranks) {
    return {
        .command = "sweep",
        .output =
            "folder of the runs' folders (default output/sweep-DATE-TIME); if it is given again, the sweep continues",
        .keep = 0,
        .more =
            [&ranks](OptionTable& t) {
                t.count("ranks", ranks, 4096, "N", "start each training by mpirun -np N; else it has one rank");
            },
        .without = {"resume", "overwrite", "print-config"}};
}

/// The parts of a command line: words that are not options (`between`), --ranks, --output, and all
/// other options.
struct Parts {
    Words between, options, ranks;
    std::string output;
};

Parts parts_of(const Words& args, const po::options_description& known) {
    Parts parts;
    for (size_t i = 0; i < args.size(); ++i) {
        if (!args[i].starts_with("--")) {
            parts.between.push_back(args[i]);
            continue;
        }
        const size_t equals = args[i].find('=');
        const std::string name = args[i].substr(2, equals - 2);
        Words words = {args[i]};
        const po::option_description* option = name.empty() ? nullptr : known.find_nothrow(name, false);
        const bool has_next = equals == std::string::npos && i + 1 < args.size();
        // an unknown option is refused later; until then the next word counts as its value
        const bool takes_next =
            option ? option->semantic()->min_tokens() > 0 : has_next && args[i + 1].find('=') == std::string::npos;
        if (has_next && takes_next && !args[i + 1].starts_with("--")) words.push_back(args[++i]);
        const std::string value = words.size() > 1          ? words[1]
                                  : equals < args[i].size() ? args[i].substr(equals + 1)
                                                            : "";
        Words& to = name == "ranks" ? parts.ranks : parts.options;
        if (name == "output" && !value.empty())
            parts.output = value;
        else
            to.insert(to.end(), words.begin(), words.end());
    }
    return parts;
}

/// Returns false for options that only say how a training is started or where it writes.
bool can_be_varied(const std::string& option) {
    static const std::set<std::string> others = {"ranks", "dry-run"};
    return !others.contains(option) && !writing_options().contains(option);
}

Varied varied_of(const std::string& text, const po::options_description& known) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos)
        fail(Exit::usage, "'" + text + "' is not of the form OPTION=VALUE,VALUE, as in lr=0.01,0.1; see --help");
    Varied varied{text.substr(0, equals), {}};
    Words names;
    for (const auto& option : known.options())
        if (can_be_varied(option->long_name())) names.push_back(option->long_name());
    if (std::find(names.begin(), names.end(), varied.option) == names.end())
        fail(Exit::usage, text + ": there is no option --" + varied.option + " to vary" +
                              did_you_mean(varied.option, names, "see --help", "--"));
    for (const std::string& value : split(text.substr(equals + 1) + ",", ',')) {
        if (value.empty()) fail(Exit::usage, text + ": a value is missing; write them with commas and no spaces");
        if (std::find(varied.values.begin(), varied.values.end(), value) != varied.values.end())
            fail(Exit::usage, text + ": " + value + " is there twice; leave one out");
        varied.values.push_back(value);
    }
    return varied;
}

/// Returns all options that the arguments vary. Throws Exit::usage if there are none, or if one is
/// also given with a single value.
std::vector<Varied> all_varied(const Parts& parts, const po::options_description& known) {
    std::vector<Varied> all;
    for (const std::string& text : parts.between) {
        all.push_back(varied_of(text, known));
        const std::string& name = all.back().option;
        for (const std::string& arg : parts.options)
            if (arg == "--" + name || arg.starts_with("--" + name + "="))
                fail(Exit::usage, "--" + name + " is given, and varied by " + text + "; leave one of them out");
        for (size_t i = 0; i + 1 < all.size(); ++i)
            if (all[i].option == name)
                fail(Exit::usage, text + ": " + name + " is varied twice; give all values at once");
    }
    if (all.empty()) fail(Exit::usage, "which option is to vary? as in convoy sweep lr=0.01,0.03,0.1 --data DIR ...");
    return all;
}

/// Returns a name for a folder. If the value is a path, only its last part is used.
std::string name_of(const std::string& option, const std::string& value) {
    const size_t end = value.find_last_not_of('/');
    const std::string path = value.substr(0, end + 1);
    return option + "-" + path.substr(path.rfind('/') + 1);
}

/// Returns every combination of values, without the other options of the command line.
std::vector<SweepRun> combinations(const std::vector<Varied>& all) {
    std::vector<SweepRun> runs(1);
    for (const Varied& varied : all) {
        std::vector<SweepRun> more;
        for (const SweepRun& run : runs)
            for (const std::string& value : varied.values) {
                more.push_back(run);
                more.back().name += (run.name.empty() ? "" : ",") + name_of(varied.option, value);
                more.back().args.push_back("--" + varied.option + "=" + value);
                if (more.size() > most_runs)
                    fail(Exit::usage,
                         "these are more than " + std::to_string(most_runs) + " trainings; vary less at once");
            }
        runs = std::move(more);
    }
    return runs;
}

void check_names(const std::vector<SweepRun>& runs) {
    std::set<std::string> names;
    for (const SweepRun& run : runs)
        if (!names.insert(run.name).second)
            fail(Exit::usage, "two of the trainings would be in one folder, " + run.name +
                                  "; give values whose paths end differently");
}

}  // namespace

OptionGroups options_of_sweep() {
    int64_t unused = 0;
    return option_groups(command(unused));
}

SweepSpec parse_sweep(const std::vector<std::string>& args, const std::string& folder) {
    SweepSpec spec;
    const OptionsOf options = command(spec.ranks);
    po::options_description known;
    for (const OptionGroup& group : option_groups(options))
        for (const auto& option : group.options) known.add(option);
    const Parts parts = parts_of(args, known);
    spec.output = parts.output.empty() ? folder : parts.output;
    spec.args = parts.between;
    for (const Words* words : {&parts.options, &parts.ranks})
        spec.args.insert(spec.args.end(), words->begin(), words->end());
    spec.runs = combinations(all_varied(parts, known));
    check_names(spec.runs);
    for (SweepRun& run : spec.runs) {
        run.args.insert(run.args.begin(), parts.options.begin(), parts.options.end());
        Words all = run.args;
        all.insert(all.end(), parts.ranks.begin(), parts.ranks.end());
        const ParsedOptions parsed = parse_train_options(all, options);
        spec.trains = !parsed.options.dry_run;
        if (!parsed.given.contains("keep")) run.args.insert(run.args.end(), {"--keep", "0"});
        run.args.insert(run.args.end(), {"--output", spec.output + "/" + run.name, "--resume", "auto"});
    }
    return spec;
}

}  // namespace convoy
