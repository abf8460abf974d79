// Turns Boost.Program_options' exceptions into one-line errors. Config lines are stored one by one,
// so that a mistake can be reported with its line number.
#include "cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/input_file.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "cli/foreign_options.h"
#include "run/configuration.h"

namespace convoy {
namespace po = boost::program_options;
namespace {

using Options = po::options_description;

std::vector<std::string> names_of(const Options& options) {
    std::vector<std::string> names = {"help"};  // help is answered before options are parsed
    for (const auto& option : options.options())
        if (!option->long_name().empty()) names.push_back(option->long_name());
    return names;
}

/// Describes the values of an option: its type, then its description.
std::string allowed(const Options& options, const std::string& name) {
    const po::option_description* option = options.find_nothrow(name, false);
    if (!option) return "see --help";
    const auto* typed = dynamic_cast<const po::typed_value_base*>(option->semantic().get());
    std::string kind = "a value";
    if (typed) {
        const std::type_info& type = typed->value_type();
        if (type == typeid(int) || type == typeid(int64_t) || type == typeid(unsigned) || type == typeid(uint64_t))
            kind = "a whole number";
        if (type == typeid(float) || type == typeid(double)) kind = "a number";
        if (type == typeid(bool)) kind = "true or false";
    }
    return "it takes " + kind + " (" + option->description() + ")";
}

/// Runs `action`. Converts what Boost throws to an Error whose message starts with `where`.
/// `dashes` is "--" on the command line and empty in a config file, so that names look as the user
/// wrote them.
template <class Action>
void translate(const Options& options, const std::string& where, const std::string& dashes, const Action& action) {
    const auto usage = [&](const std::string& text) { fail(Exit::usage, where + text); };
    try {
        action();
    } catch (const po::validation_error& error) {
        const std::string name = without_dashes(error.get_option_name());
        if (error.kind() == po::validation_error::multiple_values_not_allowed)
            usage(dashes + name + ": is given more than once");
        // Boost keeps the value only in its message: the argument ('x') for option …
        const std::string text = error.what();
        const size_t open = text.find("('"), close = text.find("')", open);
        const bool is_there = open != std::string::npos && close != std::string::npos;
        const std::string value = is_there ? text.substr(open + 2, close - open - 2) : "";
        usage(dashes + name + ": '" + value + "' is not allowed; " + allowed(options, name));
    } catch (const po::unknown_option& error) {
        const std::string name = without_dashes(error.get_option_name());
        usage(error.get_option_name() + ": there is no such option" +
              did_you_mean(name, names_of(options), "see --help", dashes));
    } catch (const po::multiple_occurrences& error) {
        usage(dashes + without_dashes(error.get_option_name()) + ": is given more than once");
    } catch (const po::invalid_syntax& error) {  // a value is missing, or one is given to a switch
        const std::string name = without_dashes(error.get_option_name());
        if (error.kind() == po::invalid_syntax::extra_parameter)
            usage(dashes + name + ": is a switch and takes no value");
        usage(dashes + name + ": its value is missing; " + allowed(options, name));
    } catch (const po::error& error) {
        usage(error.what());
    }
}

/// Finds an option. Returns null for an empty name, because Boost would match it with every option
/// and throw.
const po::option_description* known_option(const Options& options, const std::string& name) {
    return name.empty() ? nullptr : options.find_nothrow(name, false);
}

/// Returns true if the command line has already given an option that excludes `key`.
bool replaced(const std::string& key, const std::vector<std::set<std::string>>& alternatives,
              const po::variables_map& command_line) {
    const auto given = [&](const std::string& name) {
        return command_line.count(name) > 0 && !command_line[name].defaulted();
    };
    return std::any_of(alternatives.begin(), alternatives.end(), [&](const auto& set) {
        return set.contains(key) && std::any_of(set.begin(), set.end(), given);
    });
}

/// Throws for an option that only the command line may have. Its default, or `false` for a flag, is
/// allowed.
void check_not_only_flag(const Options& options, const std::string& where, const std::string& key,
                         const std::string& value, const std::set<std::string>& only_flags) {
    const auto semantic = options.find(key, false).semantic();
    const bool is_switch = semantic->min_tokens() == 0;
    const bool is_default = is_switch ? value == "false" : semantic->name().ends_with("(=" + value + ")");
    if (!only_flags.contains(key) || is_default) return;
    fail(Exit::usage, where + key +
                          ": a recipe may not say what Convoy does, writes or replaces; take the line out, and " +
                          "type --" + key + (is_switch ? "" : " " + shell_word(value)));
}

/// Stores the lines of `path` into `result`, where the command line's values are already.
void store_config(const Options& options, const std::string& path,
                  const std::vector<std::set<std::string>>& alternatives, const std::set<std::string>& only_flags,
                  ConfiguredValues& result) {
    const po::variables_map command_line = result.values;
    std::istringstream in(config_of_input(
        path, "recipe", "a recipe is lines of key = value, at most 1 MiB; check --config", Pipes::read));
    std::set<std::string> seen;
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
        const std::string where = path + ":" + std::to_string(number) + ": ";
        const std::string text = without_comment(line);
        if (text.empty()) continue;
        const std::optional<KeyValue> pair = key_and_value(text);
        if (!pair) fail(Exit::usage, where + "'" + text + "' is not of the form key = value");
        const auto& [written, value] = *pair;
        const std::string key = present_name(written);
        if (key == "config" || key == "help" || !known_option(options, key)) {
            const auto is_ours = [&](const std::string& name) { return known_option(options, name) != nullptr; };
            if (const std::string ours = instead_of_foreign(key, is_ours); !ours.empty())
                fail(Exit::usage, where + key + ": " + ours);
            std::vector<std::string> known = names_of(options);
            std::erase_if(known, [](const std::string& name) { return name == "config" || name == "help"; });
            fail(Exit::usage, where + "there is no key '" + key + "'" +
                                  did_you_mean(key, known, "keys are the long option names of --help"));
        }
        if (value.empty()) fail(Exit::usage, where + key + ": its value is missing; " + allowed(options, key));
        check_not_only_flag(options, where, key, value, only_flags);
        if (!seen.insert(key).second) fail(Exit::usage, where + key + ": is given more than once");
        po::parsed_options one(&options);
        one.options.emplace_back(key, std::vector<std::string>{value});
        translate(options, where, "", [&] {
            po::variables_map scratch;  // a value that the command line overrides must be right, too
            po::store(one, scratch);
            const bool is_given = command_line.count(key) > 0 && !command_line[key].defaulted();
            if (is_given || replaced(key, alternatives, command_line)) return;
            po::store(one, result.values);
            result.from_file[key] = path;
        });
    }
}

/// Refuses a word that begins with two dashes as the value of an option, because Boost takes
/// `--images --to DIR` for images = "--to". `--images=--to` gives such a value.
void check_values_present(const Options& options, const std::vector<std::string>& args) {
    for (size_t i = 0; i + 1 < args.size() && args[i] != "--"; ++i) {
        const po::option_description* option =
            args[i].starts_with("--") ? known_option(options, args[i].substr(2)) : nullptr;
        if (option && option->semantic()->min_tokens() > 0 && args[i + 1].starts_with("--") && args[i + 1] != "--")
            fail(Exit::usage, args[i] + ": its value is missing; " + allowed(options, args[i].substr(2)));
    }
}

/// Returns true if all values of an option are kept, and not only the last one.
bool adds_up(const po::option_description& option) {
    const auto* typed = dynamic_cast<const po::typed_value_base*>(option.semantic().get());
    return typed && typed->value_type() == typeid(std::vector<std::string>);
}

/// If an option is given several times, keeps the last value. Keeps all values of an option that
/// holds several. Joins the texts of a list (OptionTable::list()); `none` empties it.
void keep_last(const Options& options, std::vector<po::option>& given) {
    const auto known = [&](const po::option& option) {
        return option.position_key < 0 ? known_option(options, option.string_key) : nullptr;
    };
    std::map<std::string, std::string> lists;
    for (po::option& option : given) {
        const po::option_description* list = known(option);
        if (!list || adds_up(*list) || !list->semantic()->is_composing()) continue;
        std::string &all = lists[list->long_name()], &own = option.value.at(0);
        if (!all.empty() && all != "none" && own != "none") own = all + "," + own;
        all = own;
    }
    std::set<std::string> later;
    const auto replaced_later = [&](const po::option& option) {
        const po::option_description* described = known(option);
        return described && !adds_up(*described) && !later.insert(described->long_name()).second;
    };
    for (size_t i = given.size(); i-- > 0;)
        if (replaced_later(given[i])) given.erase(given.begin() + std::ptrdiff_t(i));
}

void store_arguments(const Options& options, const std::vector<std::string>& args,
                     const po::positional_options_description& positional, po::variables_map& values) {
    namespace style = po::command_line_style;
    constexpr int strict = style::unix_style & ~style::allow_guessing;
    check_values_present(options, args);
    // before Boost runs, because it takes -sm for -s m
    refuse_foreign(args, [&](const std::string& name) { return known_option(options, name) != nullptr; });
    translate(options, "", "--", [&] {
        po::parsed_options parsed = po::command_line_parser(args).options(options).style(strict).run();
        for (po::option& option : parsed.options) {
            if (option.string_key.empty()) {
                const auto position = unsigned(option.position_key);
                if (position >= positional.max_total_count())
                    fail(Exit::usage, "'" + option.value.at(0) + "' is one argument too many; see --help");
                option.string_key = positional.name_for_position(position);
            }
            // an empty value, for example from --data "$UNSET"
            if (std::find(option.value.begin(), option.value.end(), "") != option.value.end())
                fail(Exit::usage,
                     "--" + option.string_key + ": its value is missing; " + allowed(options, option.string_key));
        }
        keep_last(options, parsed.options);
        po::store(parsed, values);
    });
}

}  // namespace

po::variables_map parse(const Options& options, const std::vector<std::string>& args,
                        const po::positional_options_description& positional) {
    po::variables_map values;
    store_arguments(options, args, positional, values);
    translate(options, "", "--", [&] { po::notify(values); });
    return values;
}

ConfiguredValues parse_with_config(const Options& options, const Options& own, const std::vector<std::string>& args,
                                   const std::vector<std::set<std::string>>& alternatives,
                                   const std::set<std::string>& only_flags) {
    ConfiguredValues result;
    po::variables_map& values = result.values;
    store_arguments(own, args, {}, values);
    store_arguments(options, {}, {}, values);  // defaults of options that only the file may have
    if (values.count("config"))
        store_config(options, values["config"].as<std::string>(), alternatives, only_flags, result);
    translate(options, "", "--", [&] { po::notify(values); });
    return result;
}

std::vector<std::string> store_recorded(const Options& options, const std::string& path,
                                        const std::vector<std::pair<std::string, std::string>>& recorded,
                                        const std::vector<std::set<std::string>>& alternatives,
                                        ConfiguredValues& result) {
    const po::variables_map given = result.values;
    std::vector<std::string> unknown;
    for (const auto& [key, value] : recorded) {
        if (!known_option(options, key)) unknown.push_back(key);
        const bool is_given = given.count(key) > 0 && !given[key].defaulted();
        if (value.empty() || is_given || !known_option(options, key) || replaced(key, alternatives, given)) continue;
        po::parsed_options one(&options);
        one.options.emplace_back(key, std::vector<std::string>{value});
        translate(options, path + ": ", "", [&] { po::store(one, result.values); });
        result.from_file[key] = path;
    }
    translate(options, path + ": ", "", [&] { po::notify(result.values); });
    return unknown;
}

po::variables_map defaults_of(const Options& options) {
    po::variables_map values;
    po::store(po::command_line_parser(std::vector<std::string>{}).options(options).run(), values);
    return values;
}

std::string required_value(const po::variables_map& values, const std::string& option) {
    if (!values.count(option)) fail(Exit::usage, "--" + option + ": is required; see --help");
    return values[option].as<std::string>();
}

int64_t value_in_range(const po::variables_map& values, const std::string& option, int64_t low, int64_t high) {
    const auto value = values[option].as<int64_t>();
    if (value < low || value > high)
        fail(Exit::usage, "--" + option + ": " + std::to_string(value) + " is not allowed; it takes " +
                              std::to_string(low) + " to " + std::to_string(high));
    return value;
}

Shape parse_image_size(const std::string& option, const std::string& text) {
    Shape s;
    int end = 0;
    if (std::sscanf(text.c_str(), "%4dx%4dx%2d%n", &s.h, &s.w, &s.c, &end) != 3 || size_t(end) != text.size() ||
        s.h < 1 || s.h > 4096 || s.w < 1 || s.w > 4096 || s.c < 1 || s.c > 16)
        fail(Exit::usage, "--" + option + ": '" + text +
                              "' is not allowed; it takes HxWxC as in 32x32x3, sides 1 to 4096, 1 to 16 channels");
    return s;
}

std::vector<size_t> parse_sizes(const std::string& text) {
    constexpr size_t least = 4, most = size_t(4) << 30;  // an MPI call counts elements in an int
    const auto refuse = [&]() {
        fail(Exit::usage, "--bytes " + text + ": write a size from 4 to 4G or a range, as in 64M or 1K..1G");
    };
    const auto size = [&](const std::string& word) {
        size_t used = 0;
        double number = 0;
        try {
            number = std::stod(word, &used);
        } catch (const std::exception&) {
            refuse();
        }
        const std::string unit = word.substr(used);
        const double factor = unit.empty()  ? 1
                              : unit == "K" ? 1 << 10
                              : unit == "M" ? 1 << 20
                              : unit == "G" ? 1 << 30
                                            : 0;
        if (!(number * factor >= double(least) && number * factor <= double(most))) refuse();
        return (size_t(number * factor) + 3) / 4 * 4;
    };
    const size_t dots = text.find("..");
    const size_t first = size(text.substr(0, dots)),
                 last = dots == std::string::npos ? first : size(text.substr(dots + 2));
    if (first > last) refuse();
    std::vector<size_t> sizes;
    for (size_t s = first; s <= last; s *= 2) sizes.push_back(s);
    return sizes;
}

std::string command_line_of(const std::string& command, const std::vector<std::string>& args) {
    std::string line = "convoy " + command;
    for (const std::string& arg : args) line += " " + arg;
    return line;
}

}  // namespace convoy
