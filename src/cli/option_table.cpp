#include "cli/option_table.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"

namespace convoy {
namespace po = boost::program_options;

std::string shortest_text(const boost::any& v) {
    if (const auto* s = boost::any_cast<std::string>(&v)) return *s;
    if (const auto* i = boost::any_cast<int64_t>(&v)) return std::to_string(*i);
    if (const auto* b = boost::any_cast<bool>(&v)) return *b ? "true" : "false";
    const double d = boost::any_cast<double>(v);
    for (int digits = 6;; ++digits) {
        std::ostringstream out;
        out.precision(digits);
        out << d;
        if (digits >= 17 || std::strtod(out.str().c_str(), nullptr) == d) return out.str();
    }
}

void OptionTable::group(const std::string& heading) { groups_.emplace_back(heading, po::options_description()); }

void OptionTable::add(const char* name, po::value_semantic* value, const std::string& help) {
    if (groups_.empty()) group("options");
    groups_.back().second.add_options()(name, value, help.c_str());
}

void OptionTable::add_text(const char* name, const char* default_value, const char* value, const std::string& help) {
    add(name, po::value<std::string>()->default_value(default_value)->value_name(value), help);
}

void OptionTable::text(const char* name, std::string& to, const char* default_value, const char* value,
                       const std::string& help) {
    add(name, po::value<std::string>(&to)->default_value(default_value)->value_name(value), help);
}

void OptionTable::add_list(const char* name, const char* value, const std::string& help) {
    add(name, po::value<std::string>()->composing()->default_value("none")->value_name(value), help);
}

void OptionTable::add_flag(const char* name, const std::string& help) {
    add(name, po::value<bool>()->default_value(false, "false")->implicit_value(true, "true")->value_name("BOOL"), help);
}

void OptionTable::add_whole(const char* name, int64_t default_value, const char* value, const std::string& help) {
    add(name, po::value<int64_t>()->default_value(default_value)->value_name(value), help);
}

void OptionTable::count(const char* name, int64_t& to, int64_t most, const char* value, const std::string& help) {
    add(name, po::value<int64_t>(&to)->default_value(0, "")->value_name(value), help);
    readers_.push_back([=](const Values& v) { in_range(name, v, Range<int64_t>{0, most}); });
}

void OptionTable::add_number(const char* name, double default_value, const char* value, const std::string& help) {
    std::ostringstream text;
    text << default_value;
    add(name, po::value<double>()->default_value(default_value, text.str())->value_name(value), help);
}

template <class T> T OptionTable::in_range(const char* name, const Values& values, Range<T> range) {
    const T v = values[name].as<T>();
    if (v >= range.low && v <= range.high) return v;
    std::ostringstream message;
    message << "--" << name << " " << v << ": must be from " << range.low << " to " << range.high;
    fail(Exit::usage, message.str());
}
template int64_t OptionTable::in_range(const char*, const Values&, Range<int64_t>);
template double OptionTable::in_range(const char*, const Values&, Range<double>);

void OptionTable::config(const char* name, const char* value, const std::string& help) {
    add(name, po::value<std::string>()->value_name(value), help);
}

po::options_description OptionTable::description() const { return description({}); }

po::options_description OptionTable::description(const std::vector<std::string>& without) const {
    po::options_description all;
    for (const OptionGroup& group : groups(without))
        for (const auto& option : group.options) all.add(option);
    return all;
}

OptionGroups OptionTable::groups(const std::vector<std::string>& without) const {
    OptionGroups shown;
    for (const auto& [heading, options] : groups_) {
        OptionGroup group{heading, {}};
        for (const auto& option : options.options())
            if (std::find(without.begin(), without.end(), option->long_name()) == without.end())
                group.options.push_back(option);
        if (!group.options.empty()) shown.push_back(std::move(group));
    }
    return shown;
}

void OptionTable::read(const po::variables_map& values) const {
    for (const auto& reader : readers_) reader(values);
}

}  // namespace convoy
