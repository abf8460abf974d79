#include "accept/reports.h"

#include <algorithm>
#include <map>

#include "base/html.h"

namespace convoy {
namespace {

std::string in_label(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\' || c == '"') out += '\\';
        if (static_cast<unsigned char>(c) >= ' ') out += c;
    }
    return out;
}

/// Returns the end of a metric's name: "_bytes_per_second".
std::string unit_suffix(const std::string& unit) {
    static const std::map<std::string, std::string> suffixes = {{"1", ""},
                                                                {"s", "_seconds"},
                                                                {"Hz", "_hertz"},
                                                                {"°C", "_celsius"},
                                                                {"bytes/s", "_bytes_per_second"},
                                                                {"images/s", "_images_per_second"},
                                                                {"files/s", "_files_per_second"},
                                                                {"steps/s", "_steps_per_second"}};
    const auto found = suffixes.find(unit);
    return found == suffixes.end() ? "" : found->second;
}

std::string labels_of(const Figure& f) {
    std::vector<std::string> labels;
    if (!f.host.empty()) labels.push_back("host=\"" + in_label(f.host) + "\"");
    if (!f.peer.empty()) labels.push_back("peer=\"" + in_label(f.peer) + "\"");
    if (f.rank >= 0) labels.push_back("rank=\"" + std::to_string(f.rank) + "\"");
    if (f.at_unit == "bytes") labels.push_back(formatted("bytes=\"%.0f\"", f.at));
    return labels.empty() ? "" : "{" + joined(labels, ",") + "}";
}

/// Returns the figures of a level, those of one name together, because Prometheus requires that.
std::string gauges_of(const LevelResult& level) {
    constexpr size_t most = 2000;
    std::map<std::string, std::map<std::string, double>> values;  // by metric and labels
    std::map<std::string, std::string> names;
    for (const Figure& f : level.figures) {
        const std::string metric = "convoy_accept_" + level.level + "_" + f.name + unit_suffix(f.unit);
        values[metric][labels_of(f)] = f.value;  // a curve over time keeps only its last point
        names[metric] = f.name;
    }
    std::string text;
    for (const auto& [metric, of_labels] : values) {
        if (of_labels.size() > most) continue;
        text += "# HELP " + metric + " Figure " + names[metric] + " of the level " + level.level +
                " of convoy accept.\n# TYPE " + metric + " gauge\n";
        for (const auto& [labels, value] : of_labels) text += metric + labels + formatted(" %.9g\n", value);
    }
    return text;
}

}  // namespace

std::string named(const Blamed& b) { return b.device.empty() ? b.host : b.host + ", " + b.device; }

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

std::string acceptance_junit(const Acceptance& a) {
    size_t failures = 0, skipped = 0;
    double seconds = 0;
    std::string cases;
    for (const LevelResult& r : a.levels) {
        failures += r.outcome == Outcome::fail;
        skipped += r.outcome == Outcome::skip;
        seconds += r.seconds;
        cases += formatted("    <testcase classname=\"convoy.accept\" name=\"%s\" time=\"%.3f\">\n",
                           html_escaped(r.level).c_str(), r.seconds);
        std::string blamed;
        for (const Blamed& b : r.blamed) blamed += html_escaped(named(b) + ": " + b.reason) + "\n";
        if (r.outcome == Outcome::fail)
            cases +=
                "      <failure message=\"" + html_escaped(r.figure) + "\" type=\"FAIL\">" + blamed + "</failure>\n";
        if (r.outcome == Outcome::skip) cases += "      <skipped message=\"" + html_escaped(r.figure) + "\"/>\n";
        cases += "      <system-out>" + html_escaped(level_text(r), "\n") + "</system-out>\n    </testcase>\n";
    }
    for (const std::string& name : a.not_run)
        cases += "    <testcase classname=\"convoy.accept\" name=\"" + html_escaped(name) +
                 "\">\n      <error message=\"not run\" type=\"UNFINISHED\"/>\n    </testcase>\n";
    const std::string counts =
        formatted("tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.3f\"",
                  a.levels.size() + a.not_run.size(), failures, a.not_run.size(), skipped, seconds);
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"convoy accept\" " + counts +
           " timestamp=\"" + html_escaped(a.began.substr(0, 19)) + "\" hostname=\"" + html_escaped(a.host) + "\">\n" +
           cases + "  </testsuite>\n</testsuites>\n";
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
    for (const LevelResult& r : a.levels) text += gauges_of(r);
    return text;
}

}  // namespace convoy
