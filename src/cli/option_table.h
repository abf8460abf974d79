// A command's options, one entry each: name, type, default, what is allowed, help. What --help says
// and what is refused both come from here.
#pragma once
#include <boost/program_options.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cli/choices.h"
#include "cli/help.h"

namespace convoy {

/// Shortest text that reads back as the same string, number or flag.
std::string shortest_text(const boost::any& value);

template <class T> struct Range {
    T low, high;
};

class OptionTable {
public:
    /// Starts a group: --help prints the options that follow under this heading.
    void group(const std::string& heading);

    // Each takes the option's name, where its value goes, its default, and what --help calls its
    // value. `help` may contain {}, for the list of choices.
    void text(const char* name, std::string& to, const char* standard, const char* value, const std::string& help);
    void flag(const char* name, bool& to, const std::string& help);
    /// Adds a whole number from 0, where 0 only means that none is given: help names no default.
    void count(const char* name, int64_t& to, int64_t most, const char* value, const std::string& help);
    void whole(const char* name, int64_t& to, int64_t standard, Range<int64_t>, const char* value,
               const std::string& help);
    void number(const char* name, double& to, double standard, Range<double>, const char* value,
                const std::string& help);
    template <class T>
    void choice(const char* name, T& to, const char* standard, const Choices<T>& choices, const char* value,
                std::string help) {
        if (const size_t at = help.find("{}"); at != std::string::npos) help.replace(at, 2, help_of(choices));
        add_text(name, standard, value, help);
        readers_.push_back([name, &to, choices](const Values& v) { to = choose(name, text_of(v, name), choices); });
    }
    /// `parse` gets (name, text), and throws Exit::usage.
    template <class T>
    void parsed(const char* name, T& to, const char* standard, T (*parse)(const std::string&, const std::string&),
                const char* value, const std::string& help) {
        add_text(name, standard, value, help);
        readers_.push_back([name, &to, parse](const Values& v) { to = parse(name, text_of(v, name)); });
    }
    /// A file of options (parse_with_config), with no default.
    void config(const char* name, const char* value, const std::string& help);

    /// All entries, for Boost to parse.
    boost::program_options::options_description description() const;
    /// The same without some.
    boost::program_options::options_description description(const std::vector<std::string>& without) const;
    /// Returns the groups that help shows, without empty ones.
    OptionGroups groups(const std::vector<std::string>& without = {}) const;

    /// Fills in what Boost parsed, entry by entry. Throws Exit::usage for the first that is not
    /// allowed.
    void read(const boost::program_options::variables_map&) const;

private:
    using Values = boost::program_options::variables_map;
    void add(const char* name, boost::program_options::value_semantic*, const std::string& help);
    void add_text(const char* name, const char* standard, const char* value, const std::string& help);
    static const std::string& text_of(const Values& values, const char* name) { return values[name].as<std::string>(); }

    std::vector<std::pair<std::string, boost::program_options::options_description>> groups_;
    std::vector<std::function<void(const Values&)>> readers_;
};

}  // namespace convoy
