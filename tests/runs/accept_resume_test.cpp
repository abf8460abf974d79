// convoy accept that was killed and continues: levels that have ended are not run again. All files
// of a finished acceptance.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

class AcceptResume : public testing::Test {
protected:
    std::string folder() const { return dir_.path("accept"); }
    std::string file(const std::string& name = "accept.json") const { return folder() + "/" + name; }
    std::string command(const std::string& options) const { return "accept --output " + folder() + " " + options; }
    nlohmann::json result() const { return nlohmann::json::parse(read_file(file())); }
    /// Makes the folder of a killed acceptance of one that ended: without its last level, and with
    /// a mark in the first one, which a second run would lose.
    void take_back_last_level() const {
        nlohmann::json j = result();
        const size_t last = j["levels"].size() - 1;
        j["not_run"] = nlohmann::json::array({j["levels"][last]["level"]});
        j["levels"].erase(last);
        j["levels"][0]["details"].push_back("a mark");
        j["verdict"] = "UNFINISHED";
        write_file(file(), j.dump());
    }
    void expect_the_mark_and_the_last_level(const std::string& last) const {
        const nlohmann::json j = result();
        EXPECT_EQ(j["levels"][0]["details"].back(), "a mark") << "the first level ran again";
        EXPECT_EQ(j["levels"].back()["level"], last);
        EXPECT_TRUE(j["not_run"].empty());
        EXPECT_NE(j["verdict"], "UNFINISHED");
    }
    TempDir dir_;
};

TEST_F(AcceptResume, AKilledOneContinuesAfterTheLevelThatEnded) {
    const std::string options = command("--only inventory,endurance --minutes 0.05 --level quick --device cpu");
    // Killed as soon as accept.json has the first level.
    const std::string pid = dir_.path("pid"),
                      job = with_limit("bash -c 'echo $$ >" + pid + "; exec " + sibling("convoy") + " " + options + "'",
                                       60);
    const Finished killed =
        run("{ " + job + "; } & job=$!; for i in $(seq 600); do grep -q '\"level\": \"inventory\"' " + file() +
            " 2>/dev/null && break; sleep 0.02; done; kill -KILL $(cat " + pid + "); wait $job");
    ASSERT_EQ(killed.code, 128 + 9) << killed.out << killed.err;
    const nlohmann::json before = result();
    ASSERT_EQ(before["verdict"], "UNFINISHED");
    ASSERT_EQ(before["not_run"], nlohmann::json({"endurance"}));
    EXPECT_NE(read_file(file("report.html")).find("not run"), std::string::npos);
    const Finished f = convoy_alone(options + " --resume");
    EXPECT_TRUE(f.code == 0 || f.code == int(Exit::not_accepted)) << f.err;  // the inventory may find a real fault
    EXPECT_EQ(count(f.out, "continues " + file() + ": 1 of 2 levels have ended"), 1) << f.out;
    const nlohmann::json after = result();
    EXPECT_EQ(after["levels"][0], before["levels"][0]) << "with its seconds: it was not run again";
    EXPECT_EQ(after["began"], before["began"]);
    ASSERT_EQ(after["levels"].size(), 2u);
    EXPECT_EQ(after["levels"][1]["level"], "endurance");
    EXPECT_GT(after["levels"][1]["figures"].size(), 1u);
    EXPECT_EQ(read_file(file("report.html")).find("not run"), std::string::npos);
    EXPECT_NE(read_file(file("accept.prom")).find("convoy_accept_finished 1\n"), std::string::npos);
    record_fault("kill -9 of an acceptance after its first level", "`--resume` runs the other levels only",
                 "the first level kept, the second run", 1);
}

TEST_F(AcceptResume, AllRanksContinueTogether) {
    make_data(dir_.path("data"), 40, 8, "8x8x3", 2);
    const std::string both = "--only sums,input --data " + dir_.path("data"),
                      options = command(both + " --level quick");
    ASSERT_EQ("", failure(launch(2, options, 120)));
    take_back_last_level();
    const Finished f = launch(2, options + " --resume", 120);
    EXPECT_EQ("", failure(f));
    expect_the_mark_and_the_last_level("input");
    EXPECT_EQ(count(f.out, "PASS  sums "), 1) << f.out;
    EXPECT_EQ(count(f.out, "PASS  input "), 1) << f.out;
    // Levels of another acceptance are not taken.
    const auto refused = [&](int ranks, const std::string& more, const std::vector<std::string>& words) {
        EXPECT_EQ("", refusal(launch(ranks, command(more + " --resume")), Exit::usage, words)) << more;
    };
    refused(3, both + " --level quick", {"accept.json: was run on 2 ranks, not 3"});
    refused(2, both, {"was run with --level quick, not standard"});
    refused(2, "--only sums --level quick", {"was run with --only sums,input, not sums"});
}

TEST_F(AcceptResume, WhatCannotBeContinuedIsOneLine) {
    const std::string options = command("--only inventory --resume");
    EXPECT_EQ("", refusal(launch(2, options), Exit::bad_input, {file() + ": is not there", "--resume"}));
    EXPECT_FALSE(std::filesystem::exists(folder())) << "it was not made";
    for (const char* text : {"", "{", "{\"format\":\"convoy-accept\"}", "[[[[", "\x01\x02"}) {
        write_file(file(), text);
        EXPECT_EQ("", refusal(launch(2, options), Exit::bad_input, {file() + ": "})) << text;
    }
}

TEST_F(AcceptResume, HostsOfAnotherMachineAreNotBlamed) {
    const std::string options = command("--only sums --level quick");
    ASSERT_EQ("", failure(launch(2, options, 120)));
    nlohmann::json j = result();
    j["levels"][0]["blamed"].push_back({{"host", "a;reboot"}, {"device", ""}, {"reason", "slow"}, {"drain", true}});
    write_file(file(), j.dump());
    const Finished f = launch(2, options + " --resume");
    EXPECT_EQ("", refusal(f, Exit::bad_input, {file(), "level sums", "'a;reboot'", "none of its hosts"}));
    EXPECT_EQ(f.out.find("--exclude"), std::string::npos) << "users paste that line: " << f.out;
    const std::string own = j["levels"][0]["figures"].at(0).value("host", "");
    for (const std::string& host : {std::string("other"), own + " and other"}) {
        j["levels"][0]["blamed"].back().update({{"host", host}, {"drain", false}});
        write_file(file(), j.dump());
        EXPECT_EQ("", refusal(launch(2, options + " --resume"), Exit::bad_input, {"'other'", "none of its hosts"}));
    }
    j["levels"][0]["blamed"].back()["drain"] = true;
    j["levels"][0]["blamed"].back()["host"] = "";
    write_file(file(), j.dump());
    EXPECT_EQ("", refusal(launch(2, options + " --resume"), Exit::bad_input, {"level sums", "without a name"}));
}

// An accept.json may come from another person, and have as many figures as its limit allows.
TEST_F(AcceptResume, OnlyTheRankThatWritesReportsTakesMemoryForThem) {
    const std::string options = command("--only sums --level quick");
    ASSERT_EQ("", failure(launch(2, options, 120)));
    write_file(dir_.path("most.py"),
               "import resource, subprocess, sys\n"
               "code = subprocess.run(sys.argv[2:]).returncode\n"
               "kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
               "print(kib, file=open(sys.argv[1], 'w'))\n"
               "sys.exit(code)\n");
    const auto rank = [&](const std::string& name) {
        return "-np 1 /usr/bin/python3 " + dir_.path("most.py") + " " + dir_.path(name) + " " + sibling("convoy") +
               " " + options + " --resume";
    };
    const auto most_memory = [&] {  // of ranks 0 and 1 [KiB]
        EXPECT_EQ("", failure(mpirun(rank("0") + " : " + rank("1"), 120)));
        return std::pair(std::stod(read_file(dir_.path("0"))), std::stod(read_file(dir_.path("1"))));
    };
    const auto small = most_memory();
    nlohmann::json j = result();
    j["levels"][0]["details"] = nlohmann::json(1'000'000, "a line");
    write_file(file(), j.dump());
    const auto large = most_memory();
    EXPECT_GT(large.first - small.first, 1'000'000 * 64 / 1024) << "a text of 32 bytes, twice, for each line";
    EXPECT_LT(large.second - small.second, 16 * 1024) << "the file has 9 MB, and took 165 MB on each rank";
}

TEST_F(AcceptResume, LeavesAllReportsWithTheSameFigures) {
    make_data(dir_.path("data"), 40, 8, "8x8x3", 2);
    const Finished f = launch(2, command("--level quick --only sums,input --data " + dir_.path("data")), 120);
    ASSERT_EQ("", failure(f));
    EXPECT_EQ(count(f.out, "report: " + folder() + "/report.html"), 1) << f.out;
    for (const char* name : {"report.html", "accept.json", "junit.xml", "accept.prom", "metrics.h5"})
        EXPECT_GT(std::filesystem::file_size(file(name)), 100u) << name;
    const nlohmann::json level = result()["levels"][0];
    std::vector<double> rates;
    for (const auto& figure : level["figures"])
        if (figure["name"] == "bandwidth") rates.push_back(figure["value"]);
    EXPECT_EQ(rates.size(), 4u) << level;
    EXPECT_EQ(column(folder(), "sums/bandwidth/value"), rates);
    const std::string printed = level["figure"];
    EXPECT_EQ(printed.substr(0, printed.find(' ')), formatted("%.3g", rates.back() / 1e9));
    EXPECT_NE(read_file(file("report.html")).find("<svg id=\"sizes\""), std::string::npos);
}

TEST_F(AcceptResume, AClusterFileSaysWhatIsExpected) {
    const std::string table = R"({"all_reduce":{"ranks":2,"hosts":1,"ranks_per_host":2,"sizes":[)"
                              R"({"bytes":8,"seconds":1e-8},{"bytes":1e9,"seconds":1e-8}]}})";
    write_file(dir_.path("table.json"), table);
    write_file(dir_.path("here.cluster"),
               "nodes = 4\ngpus-per-node = 2\nnode-bandwidth = 20\nadapters = 1\n"
               "adapter-bandwidth = 10\nall-reduce-table = table.json\n");
    const std::string options = "--level quick --only sums,speed --cluster ";
    const Finished f = launch(2, command(options + dir_.path("here.cluster")), 120);
    EXPECT_EQ("", failure(f));
    EXPECT_EQ(count(f.out, "here describes 4 nodes with 2 GPUs each; this is compared with 1 of its nodes"), 1)
        << f.out;
    // 4 MiB over 2 ranks in 10 ns
    EXPECT_NE(f.out.find("and 4.19e+05 GB/s by here, of which this is 0 %"), std::string::npos) << f.out;
    const nlohmann::json j = result();
    for (const std::string name : {"expected", "together", "efficiency", "excess_sums", "excess_compute"})
        EXPECT_EQ(std::ranges::count_if(j["levels"][1]["figures"],
                                        [&](const auto& figure) { return figure["name"] == name; }),
                  1)
            << name;
    const auto refused = [&](int ranks, const std::string& more, Exit code, const std::vector<std::string>& words) {
        EXPECT_EQ("", refusal(launch(ranks, command(options + more)), code, words)) << more;
    };
    refused(3, dir_.path("here.cluster"), Exit::usage, {"gpus-per-node = 2", "3 ranks on 1 host"});
    refused(2, dir_.path("none.cluster"), Exit::bad_input, {"none.cluster"});
}

}  // namespace
}  // namespace convoy::test
