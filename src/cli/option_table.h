// The options of a command, one entry each: name, type, default, allowed values, help. Both the
// text of --help and the refusals come from here.
#pragma once
#include <boost/program_options.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cli/choices.h"
#include "cli/help.h"

namespace convoy {

/// Returns the shortest text that reads back as the same string, number or flag.
std::string shortest_text(const boost::any& value);

template <class T> struct Range {
    T low, high;
};

class OptionTable {
public:
    /// Starts a group: --help prints the options that follow under this heading.
    void group(const std::string& heading);

    // Each function takes the option's name, the field that gets its value, its default, and the
    // name of its value in --help. `help` may contain {}, which is replaced by the list of choices.
    void text(const char* name, std::string& to, const char* default_value, const char* value, const std::string& help);
    /// Adds a flag. If it is given, the field is set to `given`; otherwise the field does not
    /// change.
    template <class T> void flag(const char* name, T& to, T given, const std::string& help) {
        add_flag(name, help);
        readers_.push_back([=, &to](const Values& v) {
            if (v[name].as<bool>()) to = given;
        });
    }
    void flag(const char* name, bool& to, const std::string& help) { flag(name, to, true, help); }
    /// Adds a whole number from 0. 0 means that none is given, so the help shows no default.
    void count(const char* name, int64_t& to, int64_t most, const char* value, const std::string& help);
    /// Adds a whole number; the field may have any type of number.
    template <class T>
    void whole(const char* name, T& to, int64_t default_value, Range<int64_t> range, const char* value,
               const std::string& help) {
        add_whole(name, default_value, value, help);
        readers_.push_back([=, &to](const Values& v) { to = T(in_range(name, v, range)); });
    }
    template <class T>
    void number(const char* name, T& to, double default_value, Range<double> range, const char* value,
                const std::string& help) {
        add_number(name, default_value, value, help);
        readers_.push_back([=, &to](const Values& v) { to = T(in_range(name, v, range)); });
    }
    template <class T>
    void choice(const char* name, T& to, const char* default_value, const Choices<T>& choices, const char* value,
                std::string help) {
        if (const size_t at = help.find("{}"); at != std::string::npos) help.replace(at, 2, help_of(choices));
        add_text(name, default_value, value, help);
        readers_.push_back([name, &to, choices](const Values& v) { to = choose(name, text_of(v, name), choices); });
    }
    /// Adds an option whose text `parse` converts. `parse` gets (name, text), and throws
    /// Exit::usage.
    template <class To, class T>
    void parsed(const char* name, To& to, const char* default_value, T (*parse)(const std::string&, const std::string&),
                const char* value, const std::string& help) {
        add_text(name, default_value, value, help);
        readers_.push_back([=, &to](const Values& v) { to = To(parse(name, text_of(v, name))); });
    }
    /// Does the same for an option that sets several fields of a struct.
    template <class To>
    void parsed(const char* name, To& to, const char* default_value,
                void (*parse)(const std::string&, const std::string&, To&), const char* value,
                const std::string& help) {
        add_text(name, default_value, value, help);
        readers_.push_back([=, &to](const Values& v) { parse(name, text_of(v, name), to); });
    }
    /// Adds a list of items separated by commas, which `parse` converts. The default is `none`, an
    /// empty list. A command line may give the option several times: its lists add up.
    template <class T>
    void list(const char* name, T& to, T (*parse)(const std::string&, const std::string&), const char* value,
              const std::string& help) {
        add_list(name, value, help);
        readers_.push_back([=, &to](const Values& v) {
            if (text_of(v, name) != "none") to = parse(name, text_of(v, name));
        });
    }
    /// Adds the option that names a file of options (parse_with_config). It has no default.
    void config(const char* name, const char* value, const std::string& help);

    /// Returns all entries, for Boost to parse.
    boost::program_options::options_description description() const;
    /// Returns all entries except those named in `without`.
    boost::program_options::options_description description(const std::vector<std::string>& without) const;
    /// Returns the groups that help shows, without empty ones.
    OptionGroups groups(const std::vector<std::string>& without = {}) const;

    /// Writes what Boost parsed into the fields, entry by entry. Throws Exit::usage for the first
    /// value that is not allowed.
    void read(const boost::program_options::variables_map&) const;

private:
    using Values = boost::program_options::variables_map;
    void add(const char* name, boost::program_options::value_semantic*, const std::string& help);
    void add_text(const char* name, const char* default_value, const char* value, const std::string& help);
    void add_list(const char* name, const char* value, const std::string& help);
    void add_flag(const char* name, const std::string& help);
    void add_whole(const char* name, int64_t default_value, const char* value, const std::string& help);
    void add_number(const char* name, double default_value, const char* value, const std::string& help);
    static const std::string& text_of(const Values& values, const char* name) { return values[name].as<std::string>(); }
    /// Throws Exit::usage for a value outside the range.
    template <class T> static T in_range(const char* name, const Values&, Range<T>);

    std::vector<std::pair<std::string, boost::program_options::options_description>> groups_;
    std::vector<std::function<void(const Values&)>> readers_;
};

}  // namespace convoy
