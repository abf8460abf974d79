#include "accept/acceptance.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_shape.h"
#include "base/shorten.h"

namespace convoy {
namespace {

using Json = nlohmann::ordered_json;

constexpr Outcome outcomes[] = {Outcome::pass, Outcome::warn, Outcome::fail, Outcome::skip};
constexpr const char* format = "convoy-accept";
constexpr int64_t format_version = 1;

Json json_of(const Facts& facts) {
    Json j = Json::object();
    for (const auto& [name, text] : facts) j.emplace(name, text);  // keeps the first of several facts of one name
    return j;
}

Json json_of(const Figure& f) {
    Json j = {{"name", f.name}, {"unit", f.unit}, {"value", f.value}};
    if (!f.host.empty()) j["host"] = f.host;
    if (!f.peer.empty()) j["peer"] = f.peer;
    if (f.rank >= 0) j["rank"] = f.rank;
    if (!f.at_unit.empty()) {
        j["at"] = f.at;
        j["at_unit"] = f.at_unit;
    }
    return j;
}

Json json_of(const LevelResult& r) {
    Json level = {{"level", r.level},       {"outcome", name_of(r.outcome)}, {"figure", r.figure},
                  {"expected", r.expected}, {"seconds", r.seconds},          {"details", r.details}};
    level["blamed"] = Json::array();
    for (const Blamed& b : r.blamed)
        level["blamed"].push_back({{"host", b.host}, {"device", b.device}, {"reason", b.reason}, {"drain", b.drain}});
    level["figures"] = Json::array();
    for (const Figure& f : r.figures) level["figures"].push_back(json_of(f));
    level["facts"] = Json::array();
    for (const UnitFacts& u : r.facts)
        level["facts"].push_back({{"host", u.host}, {"device", u.device}, {"facts", json_of(u.facts)}});
    return level;
}

/// An object of the file, and where it is, for messages.
class JsonObject {
public:
    JsonObject(const Json& j, std::string where) : json_(j), where_(std::move(where)) {
        if (!j.is_object()) refuse("is no object");
    }
    [[noreturn]] void refuse(const std::string& what) const {
        fail(Exit::bad_input, where_ + ": " + what + "; the file is damaged: run again without --resume");
    }
    [[noreturn]] void refuse(const char* key, const char* what) const {
        refuse("'" + std::string(key) + "' is " + what);
    }
    bool has(const char* key) const { return json_.contains(key); }
    std::string text(const char* key) const { return text_of(value(key), key); }
    double number(const char* key) const {
        const Json& v = value(key);
        if (!v.is_number() || !std::isfinite(v.get<double>())) refuse(key, "no number");
        return v.get<double>();
    }
    int count(const char* key) const {
        const Json& v = value(key);
        if (!v.is_number_integer() || v.get<int64_t>() < 0 || v.get<int64_t>() > 1 << 24)
            refuse(key, "no whole number from 0");
        return v.get<int>();
    }
    bool flag(const char* key) const {
        if (!value(key).is_boolean()) refuse(key, "neither true nor false");
        return value(key).get<bool>();
    }
    std::vector<std::string> texts(const char* key) const {
        std::vector<std::string> all;
        for (const Json& v : list(key)) all.push_back(text_of(v, key));
        return all;
    }
    Facts facts(const char* key) const {
        if (!value(key).is_object()) refuse(key, "no object");
        Facts all;
        for (const auto& [name, text] : value(key).items()) all.emplace_back(printable(name), text_of(text, key));
        return all;
    }
    std::vector<JsonObject> objects(const char* key) const {
        std::vector<JsonObject> all;
        for (const Json& v : list(key)) all.emplace_back(v, where_ + formatted(": %s[%zu]", key, all.size()));
        return all;
    }

private:
    const Json& value(const char* key) const {
        const auto found = json_.find(key);
        if (found == json_.end()) refuse(key, "missing");
        return *found;
    }
    const Json& list(const char* key) const {
        if (!value(key).is_array()) refuse(key, "no list");
        return value(key);
    }
    std::string text_of(const Json& v, const char* key) const {
        if (!v.is_string()) refuse(key, "no text");
        return printable(v.get<std::string>());
    }

    const Json& json_;
    std::string where_;
};

/// Returns true for names that may become names of metrics and of groups in HDF5 files.
bool is_figure_name(const std::string& name) {
    return !name.empty() && name.size() <= 40 && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == name.npos;
}

Figure figure_in(const JsonObject& j) {
    Figure f{.name = j.text("name"), .unit = j.text("unit"), .value = j.number("value")};
    if (!is_figure_name(f.name)) j.refuse("name", "no name of a figure: small letters and underscores");
    constexpr size_t longest_unit = 40;  // bytes; charts repeat it at each point
    if (f.unit.size() > longest_unit) j.refuse("unit", "longer than any unit");
    if (j.has("host")) f.host = j.text("host");
    if (j.has("peer")) f.peer = j.text("peer");
    if (j.has("rank")) f.rank = j.count("rank");
    if (j.has("at_unit")) {
        f.at = j.number("at");
        f.at_unit = j.text("at_unit");
        if (f.at_unit.size() > longest_unit) j.refuse("at_unit", "longer than any unit");
    }
    return f;
}

LevelResult level_in(const JsonObject& j) {
    LevelResult r{.level = j.text("level")};
    if (std::ranges::count(level_names(), r.level) == 0) j.refuse("level", "no name of a level");
    const std::string outcome = j.text("outcome");
    const auto* known = std::ranges::find(outcomes, outcome, [](Outcome o) { return std::string(name_of(o)); });
    if (known == std::end(outcomes)) j.refuse("outcome", "neither PASS, WARN, FAIL nor SKIP");
    r.outcome = *known;
    r.figure = j.text("figure");
    r.expected = j.text("expected");
    r.seconds = j.number("seconds");
    r.details = j.texts("details");
    for (const JsonObject& b : j.objects("blamed"))
        r.blamed.push_back({b.text("host"), b.text("device"), b.text("reason"), b.flag("drain")});
    constexpr size_t most_names = 64;  // each becomes a group of metrics.h5
    std::set<std::string> names;
    for (const JsonObject& f : j.objects("figures")) {
        r.figures.push_back(figure_in(f));
        names.insert(r.figures.back().name);
        if (names.size() > most_names) f.refuse("name", "one of too many in a level");
    }
    for (const JsonObject& u : j.objects("facts"))
        r.facts.push_back({u.text("host"), u.text("device"), u.facts("facts")});
    return r;
}

/// Returns "was run with --level quick, not standard", or "" if both have the same options.
std::string other_option(const Facts& earlier, const Facts& now) {
    const auto value = [](const Facts& facts, const std::string& name) {
        const auto found = std::ranges::find(facts, name, &Facts::value_type::first);
        return found == facts.end() || found->second.empty() ? "nothing" : shortened(found->second);
    };
    for (const Facts* options : {&now, &earlier})
        for (const auto& [name, unused] : *options)
            if (value(earlier, name) != value(now, name))
                return "was run with --" + name + " " + value(earlier, name) + ", not " + value(now, name);
    return "";
}

/// Returns what differs between two acceptances; "" if one may continue the other.
std::string difference(const Acceptance& earlier, const Acceptance& now) {
    if (earlier.version != now.version || earlier.commit != now.commit)
        return "is of convoy " + earlier.version + " (" + earlier.commit + "), this is " + now.version + " (" +
               now.commit + ")";
    if (earlier.hosts.size() != now.hosts.size())
        return formatted("was run on %zu ranks, not %zu", earlier.hosts.size(), now.hosts.size());
    for (size_t rank = 0; rank < now.hosts.size(); ++rank)
        if (earlier.hosts[rank] != now.hosts[rank])
            return formatted("had rank %zu on ", rank) + earlier.hosts[rank] + ", not " + now.hosts[rank];
    return other_option(earlier.options, now.options);
}

/// Throws if a level names a host that is not in the acceptance, because users paste the hosts to
/// drain into a shell. Also throws for too many units, because tables of them would take long.
void check_units(const Acceptance& a, const std::string& file) {
    const std::set<std::string> hosts(a.hosts.begin(), a.hosts.end());
    const auto refuse = [&](const LevelResult& r, const std::string& what) {
        fail(Exit::bad_input,
             file + ": its level " + r.level + what + "; the file is damaged: run again without --resume");
    };
    for (const LevelResult& r : a.levels) {
        const auto check = [&](const std::string& host) {
            if (!host.empty() && !hosts.contains(host))
                refuse(r, " is about '" + shortened(host, 60) + "', which is none of its hosts");
        };
        for (const Blamed& b : r.blamed)
            if (b.drain && b.host.empty()) refuse(r, " drains a host without a name");
        for (const Blamed& b : r.blamed) {  // a link is blamed as "HOST and HOST"
            const size_t between = b.drain ? std::string::npos : b.host.find(" and ");
            check(b.host.substr(0, between));
            if (between != std::string::npos) check(b.host.substr(between + 5));
        }
        for (const UnitFacts& unit : r.facts) check(unit.host);
        for (const Figure& f : r.figures) {
            check(f.host);
            check(f.peer);
        }
        if (r.facts.size() > 2 * a.hosts.size()) refuse(r, " has more devices than ranks");
    }
}

}  // namespace

const std::vector<std::string>& level_names() {
    static const std::vector<std::string> names = {"inventory", "sums", "bits", "speed", "input", "endurance"};
    return names;
}

const char* verdict_name(const Acceptance& a) {
    return a.not_run.empty() ? name_of(verdict_of(a.levels)) : "UNFINISHED";
}

std::string acceptance_json(const Acceptance& a) {
    Json j = {{"format", format},           {"format_version", format_version},
              {"convoy", a.version},        {"commit", a.commit},
              {"began", a.began},           {"host", a.host},
              {"nodes", a.nodes},           {"ranks", a.ranks},
              {"hosts", a.hosts},           {"options", json_of(a.options)},
              {"verdict", verdict_name(a)}, {"drain", hosts_to_drain(a.levels)},
              {"not_run", a.not_run}};
    j["levels"] = Json::array();
    for (const LevelResult& r : a.levels) j["levels"].push_back(json_of(r));
    return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Acceptance read_acceptance(const std::string& text, const std::string& file) {
    const Json json = has_modest_shape(text) ? Json::parse(text, nullptr, false) : Json();
    const auto named = json.is_object() ? json.find("format") : json.end();
    if (named == json.end() || *named != format)
        fail(Exit::bad_input, file + ": is no accept.json; give the output folder of convoy accept");
    const JsonObject j(json, file);
    if (j.count("format_version") != format_version)
        fail(Exit::bad_input, file + ": 'format_version' is of another convoy version: run again without --resume");
    Acceptance a{.version = j.text("convoy"),
                 .commit = j.text("commit"),
                 .began = j.text("began"),
                 .host = j.text("host"),
                 .nodes = j.count("nodes"),
                 .ranks = j.count("ranks"),
                 .levels = {},
                 .not_run = j.texts("not_run"),
                 .hosts = j.texts("hosts"),
                 .options = j.facts("options")};
    std::set<std::string> seen;
    for (const JsonObject& level : j.objects("levels")) {
        a.levels.push_back(level_in(level));
        if (!seen.insert(a.levels.back().level).second) level.refuse("level", "there twice");
    }
    return a;
}

void continue_from(const Acceptance& earlier, const std::string& file, const std::set<std::string>& again,
                   Acceptance& now) {
    // Converts `now` to JSON and back, because JSON replaces bytes that are not UTF-8.
    if (const std::string other = difference(earlier, read_acceptance(acceptance_json(now), file)); !other.empty())
        fail(Exit::usage, file + ": " + other + "; give the same, or leave out --resume");
    check_units(earlier, file);
    now.began = earlier.began;
    for (const LevelResult& r : earlier.levels)
        if (!again.contains(r.level) && std::erase(now.not_run, r.level) > 0) now.levels.push_back(r);
}

Acceptance outline_of(Acceptance a) {
    for (LevelResult& r : a.levels) r = {.level = r.level, .outcome = r.outcome};
    return a;
}

}  // namespace convoy
