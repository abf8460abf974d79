#include "cli/accept_options.h"

#include <algorithm>
#include <initializer_list>

#include "accept/acceptance.h"
#include "base/text.h"
#include "cli/choices.h"

namespace convoy {
namespace po = boost::program_options;
namespace {

Choices<AcceptExtent> extents() {
    return {{"quick", AcceptExtent::quick}, {"standard", AcceptExtent::standard}, {"long", AcceptExtent::thorough}};
}

bool asked(const AcceptOptions& o, const std::string& level) { return std::ranges::count(o.levels, level) > 0; }

/// Returns the levels of --only, or all that apply.
std::vector<std::string> levels_of(const AcceptOptions& o) {
    std::vector<std::string> levels;
    for (const std::string& name : split(o.only, ',')) {
        if (std::ranges::count(level_names(), name) == 0)
            fail(Exit::usage,
                 "--only " + o.only + ": there is no level '" + name + "'; choose from " + joined(level_names(), ", "));
        if (std::ranges::count(levels, name) == 0) levels.push_back(name);
    }
    if (!levels.empty()) return levels;
    for (const std::string& name : level_names())
        if ((name != "input" || !o.data.empty()) && (name != "endurance" || o.minutes > 0)) levels.push_back(name);
    return levels;
}

/// Throws Exit::usage for an option that is used only by levels that do not run.
void refuse_without_effect(const AcceptOptions& o, const po::variables_map& values) {
    const auto needs = [&](const char* option, std::initializer_list<const char*> levels) {
        const bool given = values.count(option) > 0 && !values[option].defaulted();
        if (!given || std::ranges::any_of(levels, [&](const char* level) { return asked(o, level); })) return;
        std::vector<std::string> names(levels.begin(), levels.end());
        fail(Exit::usage, "--" + std::string(option) + ": has no effect without the level " + joined(names, " or ") +
                              "; add it to --only " + o.only + ", or leave the option out");
    };
    needs("data", {"input"});
    needs("minutes", {"endurance"});
    needs("fingerprints", {"bits"});
    needs("save-fingerprint", {"bits"});
    needs("cluster", {"sums", "speed"});
    needs("level", {"sums", "bits", "speed", "input", "endurance"});
}

/// Throws Exit::usage if --output is given twice, because one of the folders would stay empty.
void refuse_second_output(const std::vector<std::string>& args) {
    const auto names_output = [](const std::string& arg) { return arg == "--output" || arg.starts_with("--output="); };
    if (std::ranges::count_if(args, names_output) > 1)
        fail(Exit::usage, "--output: is given more than once; choose one folder");
}

}  // namespace

po::options_description description(AcceptOptions& o) {
    const auto text = [](std::string& to, const char* default_value, const char* name) {
        return po::value<std::string>(&to)->default_value(default_value, default_value)->value_name(name);
    };
    po::options_description options;
    auto add = options.add_options();
    add("level", text(o.extent_text, "standard", "HOW"), "quick, standard or long: how much work each level does");
    add("only", text(o.only, "", "LEVELS"), "run only these levels, as in sums,bits (default: all that apply)");
    add("data", text(o.data, "", "DIR"), "folder of a data set: the level input reads the files in it");
    add("minutes", po::value<double>(&o.minutes)->default_value(0)->value_name("N"),
        "length of the level endurance, which repeats a training of the level bits and compares each step");
    add("output", text(o.output, "", "DIR"),
        "folder for report.html, accept.json, junit.xml, accept.prom and metrics.h5 (default output/accept-DATE-TIME)");
    add("resume", po::bool_switch(&o.resume),
        "continue the acceptance in --output: levels that ended there are not run again");
    add("cluster", text(o.cluster, "", "FILE"),
        "compare sums and speed with predictions for the machines of this cluster file (jobs/site/*.cluster)");
    add("fingerprints", text(o.fingerprints, "", "FILE"),
        "file of the bits that each kind of device should compute, as --save-fingerprint writes it");
    add("save-fingerprint", text(o.save_fingerprint, "", "FILE"),
        "add the bits of these devices to this file, unless the level bits fails");
    add("device", text(o.device, "auto", "KIND"), "auto, cuda or cpu");
    add("share-device", po::bool_switch(&o.share), "let several ranks use one GPU");
    return options;
}

AcceptOptions parse_accept(const std::vector<std::string>& args) {
    AcceptOptions o;
    refuse_second_output(args);
    const po::variables_map values = parse(description(o), args);
    o.extent = choose("level", o.extent_text, extents());
    if (!(o.minutes >= 0 && o.minutes <= 1e5))
        fail(Exit::usage, formatted("--minutes %g: must be from 0 to 100000", o.minutes));
    o.levels = levels_of(o);
    if (asked(o, "input") && o.data.empty()) fail(Exit::usage, "--only input needs --data: the folder to read");
    if (asked(o, "endurance") && o.minutes == 0) fail(Exit::usage, "--only endurance needs --minutes");
    if (o.resume && o.output.empty())
        fail(Exit::usage, "--resume needs --output: the folder of the acceptance to continue");
    refuse_without_effect(o, values);
    return o;
}

Facts AcceptOptions::recorded(const std::string& kind) const {
    return {{"level", extent_text}, {"only", joined(levels, ",")},
            {"device", kind},       {"share-device", share ? "yes" : ""},
            {"data", data},         {"minutes", minutes > 0 ? formatted("%g", minutes) : ""},
            {"cluster", cluster},   {"fingerprints", fingerprints}};
}

}  // namespace convoy
