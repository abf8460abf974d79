#include "accept/reports.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"

namespace convoy {
namespace {

std::string named(const Blamed& b) { return b.device.empty() ? b.host : b.host + ", " + b.device; }

/// Replaces the characters that have a meaning in XML, and drops control characters.
std::string in_xml(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '&')
            out += "&amp;";
        else if (c == '"')
            out += "&quot;";
        else if (static_cast<unsigned char>(c) >= ' ')
            out += c;
    }
    return out;
}

std::string in_label(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\' || c == '"') out += '\\';
        if (static_cast<unsigned char>(c) >= ' ') out += c;
    }
    return out;
}

}  // namespace

std::string level_text(const LevelResult& r) {
    std::string text = formatted("%-5s %-10s ", name_of(r.outcome), r.level.c_str()) + r.figure;
    if (!r.expected.empty()) text += "; expected: " + r.expected;
    constexpr size_t most = 10;
    for (size_t i = 0; i < std::min(most, r.blamed.size()); ++i)
        text += "\n                 " + named(r.blamed[i]) + ": " + r.blamed[i].reason;
    if (r.blamed.size() > most) text += formatted("\n                 and %zu more", r.blamed.size() - most);
    return text;
}

std::string verdict_text(const std::vector<LevelResult>& levels) {
    std::string text = std::string("verdict: ") + name_of(verdict_of(levels));
    const std::vector<std::string> hosts = hosts_to_drain(levels);
    if (hosts.empty()) return text;
    std::string drain;
    for (const std::string& host : hosts) {
        std::string reasons;
        for (const LevelResult& r : levels)
            if (std::ranges::any_of(r.blamed, [&](const Blamed& b) { return b.drain && b.host == host; }))
                reasons += (reasons.empty() ? "" : ", ") + r.level;
        drain += (drain.empty() ? "" : ", ") + host + " (" + reasons + ")";
    }
    text += "\ndrain: " + drain;
    text += "\nSlurm: --exclude=" + joined(hosts, ",");
    text += "\nPBS:   pbsnodes -o " + joined(hosts, " ");
    return text;
}

std::string acceptance_json(const Acceptance& a) {
    nlohmann::ordered_json j = {{"format", "convoy-accept"},
                                {"format_version", 1},
                                {"convoy", a.version},
                                {"commit", a.commit},
                                {"began", a.began},
                                {"nodes", a.nodes},
                                {"ranks", a.ranks},
                                {"verdict", a.not_run.empty() ? name_of(verdict_of(a.levels)) : "UNFINISHED"},
                                {"drain", hosts_to_drain(a.levels)},
                                {"not_run", a.not_run}};
    j["levels"] = nlohmann::ordered_json::array();
    for (const LevelResult& r : a.levels) {
        nlohmann::ordered_json level = {{"level", r.level},     {"outcome", name_of(r.outcome)},
                                        {"figure", r.figure},   {"expected", r.expected},
                                        {"seconds", r.seconds}, {"details", r.details}};
        level["blamed"] = nlohmann::ordered_json::array();
        for (const Blamed& b : r.blamed)
            level["blamed"].push_back(
                {{"host", b.host}, {"device", b.device}, {"reason", b.reason}, {"drain", b.drain}});
        j["levels"].push_back(level);
    }
    return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string acceptance_junit(const Acceptance& a) {
    size_t failures = 0, skipped = 0;
    double seconds = 0;
    std::string cases;
    for (const LevelResult& r : a.levels) {
        failures += r.outcome == Outcome::fail;
        skipped += r.outcome == Outcome::skip;
        seconds += r.seconds;
        cases += formatted("    <testcase classname=\"convoy.accept\" name=\"%s\" time=\"%.3f\">\n",
                           in_xml(r.level).c_str(), r.seconds);
        std::string blamed;
        for (const Blamed& b : r.blamed) blamed += in_xml(named(b) + ": " + b.reason) + "\n";
        if (r.outcome == Outcome::fail)
            cases += "      <failure message=\"" + in_xml(r.figure) + "\" type=\"FAIL\">" + blamed + "</failure>\n";
        if (r.outcome == Outcome::skip) cases += "      <skipped message=\"" + in_xml(r.figure) + "\"/>\n";
        cases += "      <system-out>" + in_xml(level_text(r)) + "</system-out>\n    </testcase>\n";
    }
    for (const std::string& name : a.not_run)
        cases += "    <testcase classname=\"convoy.accept\" name=\"" + in_xml(name) +
                 "\">\n      <error message=\"not run\" type=\"UNFINISHED\"/>\n    </testcase>\n";
    const std::string counts =
        formatted("tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.3f\"",
                  a.levels.size() + a.not_run.size(), failures, a.not_run.size(), skipped, seconds);
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"convoy accept\" " + counts +
           " timestamp=\"" + in_xml(a.began.substr(0, 19)) + "\" hostname=\"" + in_xml(a.host) + "\">\n" + cases +
           "  </testsuite>\n</testsuites>\n";
}

std::string acceptance_prometheus(const Acceptance& a) {
    std::string text =
        "# HELP convoy_accept_level_passed 1 if a level of convoy accept passed, 0 if it failed or warned.\n"
        "# TYPE convoy_accept_level_passed gauge\n";
    for (const LevelResult& r : a.levels)
        if (r.outcome != Outcome::skip)
            text += "convoy_accept_level_passed{level=\"" + in_label(r.level) + "\"} " +
                    (r.outcome == Outcome::pass ? "1" : "0") + "\n";
    text +=
        "# HELP convoy_accept_level_seconds Seconds that a level of convoy accept took.\n"
        "# TYPE convoy_accept_level_seconds gauge\n";
    for (const LevelResult& r : a.levels)
        text +=
            "convoy_accept_level_seconds{level=\"" + in_label(r.level) + "\"} " + formatted("%.3f", r.seconds) + "\n";
    text +=
        "# HELP convoy_accept_finished 1 if convoy accept ran to its end.\n"
        "# TYPE convoy_accept_finished gauge\n"
        "convoy_accept_finished " +
        std::string(a.not_run.empty() ? "1" : "0") + "\n";
    text +=
        "# HELP convoy_accept_drain Hosts that convoy accept advises to drain.\n"
        "# TYPE convoy_accept_drain gauge\n";
    for (const std::string& host : hosts_to_drain(a.levels))
        text += "convoy_accept_drain{host=\"" + in_label(host) + "\"} 1\n";
    return text;
}

}  // namespace convoy
