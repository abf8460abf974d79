// Signs of life: the text of a status, when it appears, and that a slow training is never silent
// for long.
#include "cli/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "tests/support/cluster.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {

TEST(Terminal, AStatusSaysHowFarItIsAndHowLongItTakes) {
    Progress p{"training", "step", 10, 10, 50, {}};
    EXPECT_EQ(text_of(p, "", 12), "training: step 11 of 50, 0m12s so far");
    p.done = 18;  // 8 steps in 24 s: 32 more in 96 s
    EXPECT_EQ(text_of(p, "", 24), "training: step 19 of 50, 0m24s so far, about 1m36s left");
    p.done = 50;
    EXPECT_EQ(text_of(p, "", 120), "training: step 50 of 50, 2m00s so far, about 0m00s left");
    const Progress rated{"convert", "image", 100, 400, 1000, {}, /*rated=*/true};
    EXPECT_EQ(text_of(rated, "", 12), "convert: image 401 of 1000, 0m12s so far, 25 images/s, about 0m24s left");
    EXPECT_EQ(text_of(Progress{"start", "", 0, 0, 0, {}}, "reading the data set", 7),
              "start: reading the data set, 0m07s so far");
}

TEST(Terminal, SaysSomethingWheneverNothingElseIsSaid) {
    const TempDir dir;
    std::FILE* file = std::fopen(dir.path("out").c_str(), "w");
    {
        Terminal terminal(file, true);
        Activity activity;
        const Heartbeat heartbeat(activity, terminal, 0.1);
        ::usleep(500'000);
        const Phase phase(activity, "evaluation", "batch", 0, 9);
        activity.advance(4);
        ::usleep(500'000);
        for (int i = 0; i < 50; ++i) terminal.line("another line"), ::usleep(10'000);
    }
    std::fclose(file);
    const std::string out = read_file(dir.path("out"));
    EXPECT_GE(count(out, "start: start, 0m0"), 2) << out;
    EXPECT_GE(count(out, "evaluation: batch 5 of 9, 0m0"), 2) << out;
    EXPECT_EQ(out.find('\r'), std::string::npos) << "a file is no terminal";
    const std::string busy = out.substr(out.find("another line"));
    EXPECT_LE(count(busy, "evaluation"), 10) << "silence is what it is for: " << busy;
}

TEST(Terminal, WhatComesAfterItsEndStandsAlone) {
    const TempDir dir;
    std::FILE* file = std::fopen(dir.path("out").c_str(), "w");
    {
        Terminal terminal(file, true);
        Activity activity;
        const Heartbeat heartbeat(activity, terminal, 0.05);
        terminal.line("before");
        terminal.close();
        ::usleep(300'000);
        terminal.line("after");
        terminal.status("after");
        EXPECT_EQ(terminal.silent_seconds(), 0);
    }
    std::fclose(file);
    EXPECT_EQ(read_file(dir.path("out")), "before\n");
}

/// Runs `command`. Returns the seconds between lines on stdout or stderr; start and end count as
/// lines.
std::vector<double> silences(const std::string& command) {
    const TempDir dir;
    const Finished f = run("date +%s.%N; " + command +
                           " 2>&1 | while IFS= read -r line; do date +%s.%N; echo \"$line\" >&2; done; date +%s.%N");
    std::istringstream in(f.out);
    std::vector<double> gaps;
    double before = 0;
    for (double now = 0; in >> now; before = now)
        if (before > 0) gaps.push_back(now - before);
    return gaps;
}

TEST(Terminal, LogsWhatItDoesNotShow) {
    const TempDir dir;
    const std::string log = log_path(dir.path("logs"), 3);
    EXPECT_EQ(log, dir.path("logs/rank-0003.log"));
    std::FILE* file = std::fopen(dir.path("out").c_str(), "w");
    for (const bool shown : {false, true}) {
        Terminal terminal(file, shown);
        terminal.log_to(log);
        terminal.line("a\tline\n", "\t");
        terminal.status("a status");
        terminal.relay("another rank's");
        if (!shown) terminal.warning("beware");
    }
    std::fclose(file);
    const std::string both = "a\tline\\x0a\na status\n";
    EXPECT_EQ(read_file(log), both + "warning: beware\n" + both) << "the second is appended";
    EXPECT_EQ(read_file(dir.path("out")), both + "another rank's\n");
}

TEST(Terminal, ShowsWhatCouldSteerItAsText) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"frog, größer, 青蛙, 🐸, 50 %", "frog, größer, 青蛙, 🐸, 50 %"},
        {"a\x1b[2Jb\nc\rd\te\x7f", R"(a\x1b[2Jb\x0ac\x0dd\x09e\x7f)"},
        {std::string("nul\0", 4), R"(nul\x00)"},
        {"\xc2\x9b"
         "2J, \xc2\x85, \xc2\xa0",
         R"(\xc2\x9b2J, \xc2\x85, )"
         "\xc2\xa0"},  // C1 in UTF-8; a space is not one
        {"\x9b"
         "2J \xff\xc3",
         R"(\x9b2J \xff\xc3)"},  // bytes that are not UTF-8
        {"\xc0\x9b \xe0\x80\x9b \xed\xa0\x80 \xf4\x90\x80\x80",
         R"(\xc0\x9b \xe0\x80\x9b \xed\xa0\x80 \xf4\x90\x80\x80)"},
        {"gpj.\xe2\x80\xae\xe2\x81\xa6"
         "exe\xe2\x80\xa8",
         R"(gpj.\xe2\x80\xae\xe2\x81\xa6exe\xe2\x80\xa8)"}};
    for (const auto& [text, shown] : cases) {
        const TempDir dir;
        std::FILE* file = std::fopen(dir.path("out").c_str(), "w");
        Terminal(file, true).line(text);
        Terminal(file, true).status(text);
        std::fclose(file);
        EXPECT_EQ(read_file(dir.path("out")), shown + "\n" + shown + "\n");
        EXPECT_EQ(Error(Exit::io, text).what(), shown);
        EXPECT_EQ(printable(shown), shown) << "what is shown may be quoted";
    }
    EXPECT_EQ(printable("two\nlines\r", "\n"), "two\nlines\\x0d");
}

/// Returns the control characters in an output: bytes below a space except line ends, and C1 in
/// UTF-8.
std::string orders_in(const std::string& out) {
    std::string orders;
    for (size_t i = 0; i < out.size(); ++i) {
        const auto byte = uint8_t(out[i]), before = uint8_t(i > 0 ? out[i - 1] : 0);
        if ((byte < ' ' && byte != '\n') || byte == 0x7f || (before == 0xc2 && byte < 0xa0))
            orders += out.substr(i, 8) + "|";
    }
    return orders;
}

// One name is the sequence that clears the screen, and one sets the window's title.
TEST(Terminal, NamesInDataSetsAreShownAsText) {
    const TempDir dir;
    const std::string set = dir.path("set");
    const Finished made = convoy_alone("convert mnist --from input/mnist-sample --shards 1 --to " + set);
    ASSERT_EQ("", failure(made));
    // Convoy refuses to write such names, so another program has to.
    const Finished renamed = run(python_with("h5py") + R"( -c '
import glob, hashlib, json, sys
import h5py, numpy
names = [b"\x1b[2J", b"b\xc2\x9b2J", b"\x1b]0;owned\x07", *b"3 4 5 6 7 8 9".split()]
folder = sys.argv[1]
for path in glob.glob(folder + "/*.h5"):
    with h5py.File(path, "r+", libver=("v110", "v110")) as f:
        del f.attrs["class_names"]
        f.attrs.create("class_names", numpy.array(names), dtype="S16")
manifest = json.load(open(folder + "/manifest.json"))
for entry in manifest["shards"]:
    data = open(folder + "/" + entry["file"], "rb").read()
    entry["bytes"], entry["sha256"] = len(data), hashlib.sha256(data).hexdigest()
json.dump(manifest, open(folder + "/manifest.json", "w"))
' )" + set);
    ASSERT_EQ("", failure(renamed));
    const Finished verified = convoy_alone("verify " + set);
    ASSERT_EQ("", failure(verified));
    EXPECT_NE(verified.out.find(R"(\x1b[2J)"), std::string::npos) << verified.out;
    EXPECT_NE(verified.out.find(R"(b\xc2\x9b2J)"), std::string::npos) << verified.out;
    EXPECT_EQ("", orders_in(verified.out + verified.err));

    const Finished trained = convoy_alone("train --model mnist-linear --batch-size 64 --max-steps 1 --no-eval --data " +
                                          set + " --output " + dir.path("run"));
    ASSERT_EQ("", failure(trained));
    const Finished refused =
        convoy_alone("evaluate --model-file " + dir.path("run") + "/model.h5 --data input/mnist-sample");
    EXPECT_EQ("", orders_in(trained.out + trained.err + refused.out + refused.err));
}

// Steps and evaluation batches of several seconds each. On a fast machine they are short, and the
// test sees nothing.
TEST(Terminal, ASlowTrainingIsNeverSilent) {
    const TempDir dir;
    const std::string data = "input/cifar10-sample", convoy = sibling("convoy");
    for (const std::string& arguments :
         std::vector<std::string>{" train --model pyramidnet --data " + data +
                                      " --batch-size 64 --max-steps 1 --eval-images 64 --output " + dir.path("run"),
                                  " bench --model pyramidnet --batch-size 48 --warmup 0 --steps 1 --profile-steps 1"}) {
        const std::vector<double> gaps = silences(with_limit(convoy + arguments, 300));
        ASSERT_GE(gaps.size(), 3u);
        EXPECT_LE(*std::max_element(gaps.begin(), gaps.end()), 5 + 2.5) << arguments;  // 2.5: a busy machine
    }
}

// Rows reach metrics.h5 by time, long before the log interval is over, even if the run is killed.
TEST(Terminal, MetricsHaveRowsByTime) {
    const TempDir dir;
    const Finished f = run(with_limit("timeout -s KILL 30 " + sibling("convoy") +
                                          " train --model pyramidnet --data input/cifar10-sample --batch-size 8 " +
                                          "--no-eval --log-interval 100000 --epochs 99 --output " + dir.path("run"),
                                      100));
    EXPECT_EQ(f.code, 137) << f.err;
    EXPECT_GE(column(dir.path("run"), "train/step").size(), 1u);
}

}  // namespace
}  // namespace convoy::test
