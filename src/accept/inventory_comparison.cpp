#include "accept/inventory_comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "accept/fact_rules.h"
#include "accept/node_facts.h"
#include "base/quantile.h"
#include "base/text.h"

namespace convoy {
namespace {

/// A node or a GPU.
struct Unit {
    std::string host, device;  // device: empty for a node
    const Facts* facts;
    std::string model;

    std::string name() const { return device.empty() ? host : host + " " + device; }
};
using Units = std::vector<const Unit*>;

struct Finding {
    std::string fact;  ///< name of the fact at fault; empty: no single one
    Outcome outcome = Outcome::warn;
    std::string text;
    std::vector<Blamed> blamed{};
};
using Findings = std::vector<Finding>;

/// Returns "node01, node02, node03 and 13 more".
std::string names_of(const Units& units) {
    constexpr size_t most = 3;
    std::vector<std::string> names;
    for (const Unit* unit : units)
        if (names.size() < most || units.size() == most + 1) names.push_back(unit->name());
    const size_t more = units.size() - names.size();
    return joined(names, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

/// Adds a finding about some units that have the same fault.
void blame(const Units& units, const Fault& fault, Findings& findings) {
    Finding finding{fault.fact, fault.outcome, names_of(units) + ": " + fault.reason};
    for (const Unit* unit : units) finding.blamed.push_back({unit->host, unit->device, fault.reason, fault.drain});
    findings.push_back(std::move(finding));
}

/// The units that have each value of a fact.
using Values = std::map<std::string, Units>;

/// Replaces each number within 1 % of the median by the number nearest to the median.
Values rounded(const Values& exact) {
    constexpr double tolerance = 0.01;
    std::vector<double> numbers;
    for (const auto& [text, units] : exact) numbers.insert(numbers.end(), units.size(), leading_number(text));
    const double middle = median(numbers);
    const auto distance = [&](const auto& value) { return std::abs(leading_number(value.first) - middle); };
    const std::string nearest = std::ranges::min_element(exact, {}, distance)->first;
    Values values;
    for (const auto& value : exact) {
        Units& units = values[distance(value) <= tolerance * middle ? nearest : value.first];
        units.insert(units.end(), value.second.begin(), value.second.end());
    }
    return values;
}

/// Groups units by the value of a fact. Leaves out units whose value is not known. If most units
/// have the network card of this fact, units that list only other cards get the value "missing".
Values values_of(const std::string& fact, const FactRule& rule, const Units& units) {
    Values values;
    Units without_card;
    size_t known = 0;
    for (const Unit* unit : units) {
        const std::string text = value_of(*unit->facts, fact);
        if (!text.empty() && text != "unknown") {
            values[text].push_back(unit);
            ++known;
        } else if (text.empty() && rule.worse == Worse::down && !value_of(*unit->facts, "network cards").empty()) {
            without_card.push_back(unit);
        }
    }
    if (!without_card.empty() && known > without_card.size()) values["missing"] = without_card;
    return rule.roughly && !values.empty() ? rounded(values) : values;
}

size_t count(const Values& values) {
    size_t sum = 0;
    for (const auto& [text, units] : values) sum += units.size();
    return sum;
}

/// Returns the value that most units have.
Values::const_iterator commonest(const Values& values) {
    return std::ranges::max_element(values, {}, [](const auto& value) { return value.second.size(); });
}

/// Returns the values to blame: the worse ones if these are known, else all but the commonest.
/// Returns none if more than half of the units would be blamed. If exactly half would be, returns
/// the values only for a failure whose worse value is known, such as a link that is down.
Values wrong_values(const FactRule& rule, const Values& values) {
    const auto number = [](const auto& value) { return leading_number(value.first); };
    const std::string best = std::ranges::max_element(values, {}, number)->first;
    Values wrong;
    for (const auto& value : values)
        if (is_worse(rule.worse, value.first, best)) wrong.insert(value);
    const bool known = !wrong.empty() && wrong.size() < values.size();
    if (!known) {
        wrong = values;
        wrong.erase(commonest(values)->first);
    }
    const size_t minority = 2 * count(wrong), all = count(values);
    const bool blamed = minority < all || (minority == all && known && rule.outcome == Outcome::fail);
    return blamed ? wrong : Values{};
}

/// Returns "the other 15 have 580.82.07", or "14 of 16 have 580.82.07".
std::string others_have(const std::string& text, size_t have, size_t known) {
    if (have + 1 < known) return std::to_string(have) + " of " + std::to_string(known) + " have " + text;
    return have == 1 ? "the other has " + text : "the other " + std::to_string(have) + " have " + text;
}

/// Compares a fact of units that should be alike.
void compare_fact(const std::string& fact, const FactRule& rule, const Units& units, Findings& findings) {
    const Values values = values_of(fact, rule, units);
    if (values.size() < 2) return;
    const std::string label = label_of(fact) + " ";
    const Values wrong = wrong_values(rule, values);
    if (wrong.empty()) {
        std::vector<std::string> groups;
        for (const auto& [text, having] : values) groups.push_back(text + " on " + names_of(having));
        findings.push_back({fact, Outcome::warn, label + joined(groups, ", ")});
        return;
    }
    Values right = values;
    for (const auto& [text, having] : wrong) right.erase(text);
    const auto most = commonest(right);
    const std::string others = ", " + others_have(most->first, most->second.size(), count(values));
    for (const auto& [text, having] : wrong)
        blame(having, {fact, label + text + others, rule.outcome, rule.drain}, findings);
}

/// Compares all facts of nodes, or of GPUs, in the order in which they appear.
void compare_units(const std::vector<Unit>& units, Findings& findings) {
    std::vector<std::string> facts;
    for (const Unit& unit : units)
        for (const auto& [name, text] : *unit.facts)
            if (std::ranges::find(facts, name) == facts.end()) facts.push_back(name);
    for (const std::string& fact : facts) {
        const FactRule* rule = rule_for(fact);
        if (!rule) continue;
        std::map<std::string, Units> alike;
        for (const Unit& unit : units) alike[rule->of_model ? unit.model : ""].push_back(&unit);
        for (const auto& [model, group] : alike) compare_fact(fact, *rule, group, findings);
    }
}

/// Adds faults that need no comparison, unless a comparison has found the same fact. If there
/// are several units and all have the same warning, it blames none of them.
void add_faults(const std::vector<Unit>& units, const std::function<std::vector<Fault>(const Unit&)>& faults_of,
                const std::string& plural, Findings& findings) {
    const std::string all = units.size() == 2 ? "both" : "all " + std::to_string(units.size());
    std::vector<std::pair<Fault, Units>> found;
    for (const Unit& unit : units)
        for (const Fault& fault : faults_of(unit)) {
            if (!fault.fact.empty() && std::ranges::count(findings, fault.fact, &Finding::fact) > 0) continue;
            const auto same =
                std::ranges::find_if(found, [&](const auto& f) { return f.first.reason == fault.reason; });
            if (same == found.end())
                found.push_back({fault, {&unit}});
            else
                same->second.push_back(&unit);
        }
    for (const auto& [fault, having] : found)
        if (fault.outcome == Outcome::warn && having.size() > 1 && having.size() == units.size())
            findings.push_back({"", fault.outcome, fault.reason + " on " + all + " " + plural});
        else
            blame(having, fault, findings);
}

std::string device_name(const DeviceInventory& device) {
    const std::string index = value_of(device.facts, "index");
    return index.empty() ? "rank " + std::to_string(device.rank) : "GPU " + index;
}

std::string row_of(const Unit& unit) {
    std::vector<std::string> texts;
    for (const auto& [name, text] : *unit.facts)
        if (text != "not loaded") texts.push_back(label_of(name) + " " + text);
    return unit.name() + ": " + joined(texts, "; ");
}

std::string number_with(size_t count, const std::string& noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string figure_of(const Findings& findings, size_t nodes, size_t gpus) {
    const std::string all = number_with(nodes, "node") + (gpus > 0 ? " and " + number_with(gpus, "GPU") : "");
    if (findings.empty()) return all + (nodes > 1 ? " alike" : " without fault");
    return findings[0].text + (findings.size() > 1 ? formatted(" (and %zu more)", findings.size() - 1) : "");
}

}  // namespace

LevelResult compare_inventories(const std::vector<NodeInventory>& nodes) {
    std::vector<Unit> hosts, gpus;
    std::map<std::string, int> ranks;
    std::set<std::string> with_gpus;
    for (const NodeInventory& node : nodes) {
        hosts.push_back({node.host, "", &node.facts, value_of(node.facts, "cpu")});
        ranks[node.host] = node.ranks;
        for (const DeviceInventory& device : node.devices)
            if (const std::string model = value_of(device.facts, "gpu"); !model.empty()) {
                gpus.push_back({node.host, device_name(device), &device.facts, model});
                with_gpus.insert(node.host);
            }
    }
    Findings findings;
    compare_units(hosts, findings);
    compare_units(gpus, findings);
    add_faults(
        hosts,
        [&](const Unit& unit) { return faults_of_node(*unit.facts, ranks[unit.host], with_gpus.contains(unit.host)); },
        "nodes", findings);
    add_faults(gpus, [](const Unit& unit) { return faults_of_gpu(*unit.facts); }, "GPUs", findings);
    std::ranges::stable_sort(findings, std::greater(),
                             [](const Finding& f) { return std::pair(f.outcome, !f.blamed.empty()); });

    LevelResult result{.level = "inventory"};
    result.figure = figure_of(findings, hosts.size(), gpus.size());
    if (hosts.size() > 1) result.expected = "the same on all nodes";
    for (const Finding& finding : findings) {
        result.outcome = std::max(result.outcome, finding.outcome);
        result.details.push_back(finding.text);
        result.blamed.insert(result.blamed.end(), finding.blamed.begin(), finding.blamed.end());
    }
    for (const std::vector<Unit>* units : {&hosts, &gpus})
        for (const Unit& unit : *units) {
            result.details.push_back(row_of(unit));
            result.facts.push_back({unit.host, unit.device, *unit.facts});
        }
    result.add({.name = "nodes", .unit = "1", .value = double(hosts.size())});
    result.add({.name = "gpus", .unit = "1", .value = double(gpus.size())});
    result.add({.name = "findings", .unit = "1", .value = double(findings.size())});
    return result;
}

}  // namespace convoy
