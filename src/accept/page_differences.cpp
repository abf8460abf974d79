#include <algorithm>
#include <cmath>
#include <map>

#include "accept/fact_rules.h"
#include "accept/node_facts.h"
#include "accept/page.h"
#include "base/html.h"

namespace convoy {
namespace {

using Units = std::vector<UnitFacts>;

/// A fact in which units differ.
struct Difference {
    std::string fact;
    std::string usual;  ///< value of more than half of the units; empty: there is none
};

/// Returns true if these are numbers within 1 % of one another.
bool are_roughly_equal(const std::map<std::string, size_t>& values) {
    double low = INFINITY, high = -INFINITY;
    for (const auto& [text, units] : values) {
        low = std::min(low, leading_number(text));
        high = std::max(high, leading_number(text));
    }
    return low > 0 && high <= 1.01 * low;
}

std::vector<Difference> differing(const Units& units) {
    std::vector<std::string> names;
    for (const UnitFacts& unit : units)
        for (const auto& [name, text] : unit.facts)
            if (std::ranges::count(names, name) == 0) names.push_back(name);
    std::vector<Difference> differences;
    for (const std::string& name : names) {
        const FactRule* rule = rule_for(name);
        if (!rule) continue;
        std::map<std::string, size_t> values;
        for (const UnitFacts& unit : units) ++values[value_of(unit.facts, name)];
        if (values.size() < 2 || (rule->roughly && are_roughly_equal(values))) continue;
        const auto most = std::ranges::max_element(values, {}, [](const auto& v) { return v.second; });
        differences.push_back({name, 2 * most->second > units.size() ? most->first : ""});
    }
    return differences;
}

std::string name_of(const UnitFacts& unit) { return unit.device.empty() ? unit.host : unit.host + ", " + unit.device; }

std::string cell(const std::string& text, bool odd) {
    return std::string(odd ? "<td class=\"odd\">" : "<td>") + (text.empty() ? "—" : html_escaped(text)) + "</td>";
}

/// Returns a table with a row per unit and a column per fact that differs. If there are many units,
/// only those that differ have a row.
std::string table_of(const Units& units, const std::string& id, const std::string& kind) {
    constexpr size_t most_rows = 32;
    const std::vector<Difference> differences = differing(units);
    if (differences.empty()) return "";
    std::string html = "<div class=\"wide\"><table id=\"" + id + "\">\n<tr><th>" + kind + "</th>";
    for (const Difference& d : differences) html += "<th>" + html_escaped(label_of(d.fact)) + "</th>";
    html += "</tr>\n<tr><td class=\"note\">most have</td>";
    for (const Difference& d : differences) html += cell(d.usual, false);
    html += "</tr>\n";
    for (const UnitFacts& unit : units) {
        std::string cells;
        bool any = false;
        for (const Difference& d : differences) {
            const std::string text = value_of(unit.facts, d.fact);
            const bool odd = text != d.usual;
            any = any || odd;
            cells += cell(text, odd);
        }
        if (any || units.size() <= most_rows)
            html += "<tr><td>" + html_escaped(name_of(unit)) + "</td>" + cells + "</tr>\n";
    }
    return html + "</table></div>\n";
}

}  // namespace

std::string differences_of(const LevelResult& r) {
    Units hosts, devices;
    for (const UnitFacts& unit : r.facts) (unit.device.empty() ? hosts : devices).push_back(unit);
    if (hosts.size() + devices.size() < 2) return "";
    const std::string tables =
        table_of(hosts, "differences", "host") + table_of(devices, "device-differences", "device");
    if (tables.empty()) return "<p class=\"note\">Hosts and devices have the same facts.</p>\n";
    return "<p>Facts in which hosts or devices differ. What is not the majority's is bold.</p>\n" + tables;
}

}  // namespace convoy
