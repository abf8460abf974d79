#include "accept/page.h"

#include <algorithm>

#include "accept/reports.h"
#include "base/html.h"

namespace convoy {
namespace {

// The style sheet, for light and dark screens. Each colour comes with a word, a sign or bold
// letters, because not everybody tells colours apart.
constexpr const char* style =
    ":root{color-scheme:light dark;--ink:#1d2430;--soft:#5c6675;--line:#d9dee6;--paper:#fff;--card:#f6f8fa;"
    "--pass:#1a7f4b;--warn:#9a6200;--fail:#c02424;--none:#5c6675;"
    "--s0:#2468b4;--s1:#d27d1e;--s2:#2c9a70;--s3:#a8467e;--s4:#7159c1;--s5:#5c6675}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e4e8ee;--soft:#9aa5b4;--line:#384150;--paper:#14181f;"
    "--card:#1c222b;--pass:#4cc38a;--warn:#e2a63b;--fail:#ff7070;--none:#9aa5b4;"
    "--s0:#5fa3ee;--s1:#f0a04b;--s2:#4cc39a;--s3:#d983b4;--s4:#a592ee;--s5:#9aa5b4}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:64em;margin:2em auto;padding:0 1em;color:var(--ink);"
    "background:var(--paper)}"
    "h1{font-size:1.5em;margin-bottom:.3em}h2{font-size:1.2em;margin-top:2.2em}"
    ".verdict{border-left:.5em solid;border-radius:.4em;padding:.8em 1.2em;margin:1em 0;background:var(--card)}"
    ".verdict strong{font-size:1.5em}.verdict p{margin:.2em 0;color:var(--ink)}"
    ".pass{color:var(--pass)}.warn{color:var(--warn)}.fail{color:var(--fail)}.none{color:var(--none)}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.4em .8em .4em 0;text-align:left;vertical-align:top;"
    "border-bottom:1px solid "
    "var(--line)}th{color:var(--soft);font-weight:normal}"
    "td.number{text-align:right;white-space:nowrap}"
    "td ul{margin:.3em 0 0;padding-left:1.1em}td.odd{font-weight:bold;color:var(--fail)}.note{color:var(--soft)}"
    "pre{background:var(--card);padding:.8em;overflow-x:auto;border-radius:.4em}.wide{overflow-x:auto}"
    "figure{margin:1.2em 0}figcaption{margin-bottom:.4em}"
    "svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg text.on{fill:var(--paper)}"
    "svg text.alarm{fill:var(--fail);font-weight:bold;font-size:16px}"
    "path{fill:none;stroke-width:1}.grid{stroke:var(--line)}.axis{stroke:var(--soft)}"
    ".line{stroke-width:2}.dashed{stroke-dasharray:6 4}.mark{stroke:var(--ink);stroke-width:2}"
    ".mark.limit{stroke:var(--fail);stroke-dasharray:4 3}.mark.expected{stroke-dasharray:1 3}"
    ".s0{fill:var(--s0)}.s1{fill:var(--s1)}.s2{fill:var(--s2)}.s3{fill:var(--s3)}.s4{fill:var(--s4)}"
    ".s5{fill:var(--s5)}path.s0{stroke:var(--s0)}path.s1{stroke:var(--s1)}path.s2{stroke:var(--s2)}"
    "path.s3{stroke:var(--s3)}path.s4{stroke:var(--s4)}path.s5{stroke:var(--s5)}path.line{fill:none}"
    "rect.bad{fill:var(--fail)}"
    "ul.legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.2em 1.4em}"
    ".legend i{display:inline-block;width:1em;height:.8em;margin-right:.5em;background:var(--s0)}"
    ".legend i.s1{background:var(--s1)}.legend i.s2{background:var(--s2)}.legend i.s3{background:var(--s3)}"
    ".legend i.s4{background:var(--s4)}.legend i.s5{background:var(--s5)}"
    ".legend i.mark{height:0;background:none;border-top:2px solid var(--ink);margin-bottom:.3em}"
    ".legend i.limit{border-top:2px dashed var(--fail)}.legend i.expected{border-top:2px dotted var(--ink)}";

const char* class_of(Outcome outcome) {
    switch (outcome) {
        case Outcome::pass: return "pass";
        case Outcome::warn: return "warn";
        case Outcome::fail: return "fail";
        case Outcome::skip: return "none";
    }
    return "";
}

std::string counted(size_t n, const std::string& noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); }

/// Returns the verdict in words.
std::string sentence_of(const Acceptance& a) {
    if (!a.not_run.empty()) return counted(a.not_run.size(), "level") + " did not end: " + joined(a.not_run, ", ");
    switch (verdict_of(a.levels)) {
        case Outcome::pass: return "Accepted: no level found anything wrong.";
        case Outcome::warn: return "Accepted, with warnings.";
        case Outcome::fail: return "Not accepted.";
        case Outcome::skip: return "Nothing could be compared.";
    }
    return "";
}

std::string verdict_box(const Acceptance& a) {
    const char* kind = a.not_run.empty() ? class_of(verdict_of(a.levels)) : "none";
    std::string html = "<div id=\"verdict\" class=\"verdict " + std::string(kind) + "\"><strong>" + verdict_name(a) +
                       "</strong>\n<p>" + html_escaped(sentence_of(a)) + "</p>\n";
    if (const std::vector<std::string> hosts = hosts_to_drain(a.levels); !hosts.empty())
        html +=
            "<p>" + counted(hosts.size(), "host") + " to drain: <b>" + html_escaped(joined(hosts, ", ")) + "</b></p>";
    return html + "</div>\n";
}

/// Returns a list of the blamed hosts or devices, at most 20.
std::string blamed_list(const LevelResult& r) {
    constexpr size_t most = 20;
    if (r.blamed.empty()) return "";
    std::string html = "<ul>";
    for (size_t i = 0; i < std::min(most, r.blamed.size()); ++i) {
        const Blamed& b = r.blamed[i];
        html += "<li><b>" + html_escaped(named(b)) + "</b>: " + html_escaped(b.reason) + "</li>";
    }
    if (r.blamed.size() > most) html += formatted("<li>and %zu more</li>", r.blamed.size() - most);
    return html + "</ul>";
}

std::string level_table(const Acceptance& a) {
    std::string html =
        "<table id=\"levels\">\n<tr><th>outcome</th><th>level</th><th>result</th><th>expected</th><th>time</th></tr>\n";
    for (const LevelResult& r : a.levels)
        html += "<tr><td class=\"" + std::string(class_of(r.outcome)) + "\"><b>" + name_of(r.outcome) +
                "</b></td><td>" + html_escaped(r.level) + "</td><td>" + html_escaped(r.figure) + blamed_list(r) +
                "</td><td>" + html_escaped(r.expected) +
                formatted("</td><td class=\"number\">%.1f s</td></tr>\n", r.seconds);
    for (const std::string& name : a.not_run)
        html += "<tr><td class=\"none\"><b>not run</b></td><td>" + html_escaped(name) +
                "</td><td></td><td></td><td></td></tr>\n";
    return html + "</table>\n";
}

/// Returns the options that were given, as on the command line.
std::string options_of(const Acceptance& a) {
    std::string text;
    for (const auto& [name, value] : a.options)
        if (!value.empty()) text += " --" + name + " " + value;
    return text;
}

std::string level_section(const LevelResult& r) {
    const std::string content = differences_of(r) + pictures_of(r);
    if (content.empty() && r.details.empty()) return "";
    std::string html = "<h2 id=\"" + html_escaped(r.level) + "\">" + html_escaped(r.level) + "</h2>\n" + content;
    if (r.details.empty()) return html;
    html += "<details><summary>" + counted(r.details.size(), "line") + "</summary><pre>";
    for (const std::string& line : r.details) html += html_escaped(line) + "\n";
    return html + "</pre></details>\n";
}

}  // namespace

std::string acceptance_page(const Acceptance& a) {
    const std::string title =
        "Acceptance of " + counted(size_t(a.nodes), "node") + " with " + counted(size_t(a.ranks), "rank");
    std::string html =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"/>"
        "<meta name=\"viewport\" content=\"width=device-width\"/><title>" +
        title + "</title>\n<style>" + style + "</style></head>\n<body>\n<h1>" + title + "</h1>\n<p class=\"note\">" +
        html_escaped("convoy " + a.version + " (" + a.commit + ") accept" + options_of(a) + ", " + a.began +
                     (a.host.empty() ? "" : ", from " + a.host)) +
        "</p>\n" + verdict_box(a) + level_table(a);
    if (!hosts_to_drain(a.levels).empty())
        html += "<pre id=\"drain\">" + html_escaped(verdict_text(a.levels), "\n") + "</pre>\n";
    for (const LevelResult& r : a.levels) html += level_section(r);
    return html + "</body>\n</html>\n";
}

}  // namespace convoy
