// report.html of an acceptance test, read by a parser of XML and shown by a browser.
#include <gtest/gtest.h>

#include "accept/charts.h"
#include "accept/page.h"
#include "accept/reports.h"
#include "tests/support/support.h"
#include "tests/unit/made_up_acceptance.h"

namespace convoy::test {
namespace {

/// Returns what a program that is given the page prints.
std::string seen_by_python(const std::string& page, const std::string& program) {
    const TempDir dir;
    write_file(dir.path("page.html"), page);
    write_file(dir.path("read.py"),
               "import sys, xml.etree.ElementTree as tree\n"
               "root = tree.parse(sys.argv[1]).getroot()\n"
               "parts = {e.get('id'): e for e in root.iter() if e.get('id')}\n"
               "def text(e): return ''.join(e.itertext())\n" +
                   program);
    const Finished f = run("/usr/bin/python3 " + dir.path("read.py") + " " + dir.path("page.html"));
    return f.out + f.err;
}

TEST(AcceptPage, BeginsWithTheVerdictAndTheLevels) {
    EXPECT_EQ(seen_by_python(acceptance_page(made_up_acceptance()), R"(
print(text(parts["verdict"]).split(), parts["verdict"].get("class"))
for row in list(parts["levels"])[1:]:
    print(text(row[0]), text(row[1]), len(row[2].findall("ul/li")))
print(text(parts["drain"]))
)"),
              "['FAIL', 'Not', 'accepted.', '3', 'hosts', 'to', 'drain:', 'n0,', 'n2,', 'n3<b>&\"\\''] verdict fail\n"
              "FAIL inventory 1\nFAIL sums 1\nPASS bits 0\nFAIL speed 1\nWARN input 1\nFAIL endurance 1\n"
              "verdict: FAIL\ndrain: n0 (endurance), n2 (speed), n3<b>&\"' (inventory)\n"
              "Slurm: --exclude=n0,n2,n3<b>&\"'\nPBS:   pbsnodes -o n0 n2 n3<b>&\"'\n");
}

TEST(AcceptPage, PicturesHaveAPartForEachNumberAndItsHost) {
    EXPECT_EQ(seen_by_python(acceptance_page(made_up_acceptance()), R"(
bars = lambda name: [e for e in parts[name].iter("rect")]
print([len(bars(name)) for name in ("pairs", "inside", "speeds", "reading")])
print([text(e) for e in bars("pairs") if "bad" in e.get("class")])
print([text(e) for e in bars("speeds") if "bad" in e.get("class")])
print([text(e) for e in bars("reading") if "bad" in e.get("class")])
print(len(list(parts["sizes"].iter("circle"))), len(list(parts["curve-speed"].iter("circle"))))
height = lambda e: float(e.get("height"))
alone = bars("speeds")[0:16:2]
print(round(height(alone[5]) / height(alone[0]), 2))
print(sum("n3<b>&\"'" in text(e) for e in bars("speeds")))
)"),
              "[12, 4, 16, 5]\n"
              "['n0 and n1: 2 GB/s, slow', 'n1 and n0: 2 GB/s, slow']\n"
              "['n2, rank 5, alone: 500 images/s', 'n2, rank 5, beside the others: 490 images/s']\n"
              "['n1, all at once: 1 GB/s']\n4 16\n0.5\n4\n");
}

// A process may have such a name, and a busy one is named.
TEST(AcceptPage, CodesThatXmlForbidsAreEscaped) {
    LevelResult r{.level = "inventory", .outcome = Outcome::fail, .figure = "disturbed by a\uFFFEb\uFFFF\x01."};
    Acceptance a = made_up_acceptance();
    a.levels = {r};
    EXPECT_EQ(seen_by_python(acceptance_page(a), "print(text(parts['levels'][1][2]))"),
              "disturbed by a\\xef\\xbf\\xbeb\\xef\\xbf\\xbf\\x01.\n");
    EXPECT_EQ(seen_by_python(acceptance_junit(a), "print(root.find('.//failure').get('message')[:14])"),
              "disturbed by a\n");
}

TEST(AcceptPage, FactsInWhichHostsDifferAreATable) {
    EXPECT_EQ(seen_by_python(acceptance_page(made_up_acceptance()), R"(
for row in parts["differences"]:
    print([text(cell) for cell in row], [cell.get("class") for cell in row].count("odd"))
)"),
              "['host', 'driver'] 0\n['most have', '580.82.07'] 0\n['n0', '580.82.07'] 0\n['n1', '580.82.07'] 0\n"
              "['n2', '580.82.07'] 0\n['n3<b>&\"\\'', '570.1'] 1\n");
    LevelResult same = compare_inventories(cluster(3));
    EXPECT_NE(differences_of(same).find("have the same facts"), std::string::npos);
    EXPECT_EQ(differences_of({.level = "bits"}), "");
    LevelResult many = with_node(100, 7, "driver", "570.1");
    const std::string table = differences_of(many);
    EXPECT_NE(table.find("node07"), std::string::npos);
    EXPECT_EQ(table.find("node08"), std::string::npos) << "only rows that differ, of many";
}

TEST(AcceptPage, RefersToNoOtherFile) {
    const std::string page = acceptance_page(made_up_acceptance());
    for (const char* word : {"http", "src=", "href=", "url(", "@import", "<script"})
        EXPECT_EQ(page.find(word), std::string::npos) << word;
    EXPECT_NE(page.find("prefers-color-scheme:dark"), std::string::npos);
}

TEST(AcceptPage, AnUnfinishedOneSaysWhatDidNotRun) {
    Acceptance a = made_up_acceptance();
    a.levels.resize(3);
    a.not_run = {"speed", "input"};
    EXPECT_EQ(seen_by_python(acceptance_page(a), R"(
print(text(parts["verdict"]).split()[0], [text(row[1]) for row in parts["levels"] if text(row[0]) == "not run"])
print("speeds" in parts, "pairs" in parts)
)"),
              "UNFINISHED ['speed', 'input']\nFalse True\n");
    a.levels.clear();
    EXPECT_EQ(seen_by_python(acceptance_page(a), "print(len(parts['levels']))"), "3\n");
}

// The page is copied with a script that reports what the browser shows.
TEST(AcceptPage, ABrowserShowsVerdictTableAndPictures) {
    const std::string browser = run("command -v chromium chromium-browser google-chrome | head -1").out;
    if (browser.empty()) GTEST_SKIP() << "no chromium";
    const TempDir dir;
    write_file(dir.path("page.html"), acceptance_page(made_up_acceptance()) + R"(<script>onload = () => {
const seen = e => e.getBoundingClientRect().width > 100 && e.getBoundingClientRect().height > 100;
const pictures = [...document.querySelectorAll("svg")].filter(seen).map(e => e.id).join(",");
const blue = getComputedStyle(document.querySelector("#speeds rect")).fill;
const red = getComputedStyle(document.querySelector("#speeds rect.bad")).fill;
document.title = [document.querySelector("#verdict strong").textContent,
  document.querySelectorAll("#levels tr").length, pictures, blue != red].join("; "); };</script>)");
    const Finished f = run("HOME=" + dir.path() + " timeout 60 " + browser.substr(0, browser.size() - 1) +
                           " --headless --no-sandbox --disable-gpu --virtual-time-budget=5000 --dump-dom file://" +
                           dir.path("page.html") + " | grep -o '<title>[^<]*; [^<]*</title>'");
    EXPECT_EQ(f.out,
              "<title>FAIL; 7; pairs,sizes,inside,speeds,reading,curve-speed,curve-temperature,curve-clock; true"
              "</title>\n")
        << f.err;
}

TEST(AcceptPage, TicksAreRoundNumbers) {
    for (const double most : {1.0, 1.1, 1.9, 2.1, 3.0, 4.9, 5.1, 6.1, 9.9, 12345.0, 0.00321, 8e9}) {
        const std::vector<double> ticks = ticks_to(most);
        EXPECT_GE(ticks.size(), 4u) << most;
        EXPECT_LE(ticks.size(), 7u) << most;
        EXPECT_EQ(ticks.front(), 0);
        EXPECT_GE(ticks.back(), most * (1 - 1e-9));
        EXPECT_LT(ticks[ticks.size() - 2], most);
        const double leading = ticks[1] / std::pow(10, std::floor(std::log10(ticks[1]) + 1e-9));
        EXPECT_TRUE(std::abs(leading - 1) < 1e-6 || std::abs(leading - 2) < 1e-6 || std::abs(leading - 5) < 1e-6)
            << most << ": " << ticks[1];
    }
    for (const double tiny : {5e-324, 3e-308}) {  // of a damaged accept.json; each once had ticks without end
        const LevelResult r = judge_reading({{"n0", tiny, 1, 8}}, {"n0", tiny, 1, 8});
        EXPECT_NE(pictures_of(r).find("<svg id=\"reading\""), std::string::npos) << tiny;
    }
    EXPECT_EQ(with_unit(12.5e9, "bytes/s"), "12.5 GB/s");
    EXPECT_EQ(with_unit(0, "bytes/s"), "0 B/s");
    EXPECT_EQ(with_unit(1.41e9, "Hz"), "1.41 GHz");
    EXPECT_EQ(with_unit(12345, "images/s"), "12,345 images/s");
    EXPECT_EQ(with_unit(61, "°C"), "61 °C");
}

}  // namespace
}  // namespace convoy::test
