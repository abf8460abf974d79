// Cluster files: units, tables and refusals. The files that ship are compared with published
// figures of such machines.
#include "report/cluster_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

const std::string least = "nodes = 1\ngpus-per-node = 4\nnode-bandwidth = 20\n";

class ClusterFile : public testing::Test {
protected:
    std::string file(const std::string& text, const std::string& name = "mine.cluster") {
        write_file(dir.path(name), text);
        return dir.path(name);
    }
    /// Returns the problem with the refusal of `text`, whose message must name FILE:LINE.
    std::string problem(const std::string& text, int line, std::vector<std::string> words) {
        const std::string path = file(text);
        words.push_back(line > 0 ? path + ":" + std::to_string(line) + ": " : path + ": ");
        return problem_of_error(Exit::bad_input, words, [&] { read_cluster(path); });
    }
    /// Returns a table of 2 hosts with 4 ranks each; `sizes` holds lists like "[8, 1e-5]".
    std::string table(const std::string& sizes, int ranks = 8, int hosts = 2, int per_host = 4) {
        std::string rows;
        for (const char c : sizes)
            rows += c == '[' ? "{\"bytes\":" : c == ';' ? ",\"seconds\":" : c == ']' ? "}" : std::string(1, c);
        return formatted("{\"all_reduce\":{\"ranks\":%d,\"hosts\":%d,\"ranks_per_host\":%d,\"sizes\":[%s]}}", ranks,
                         hosts, per_host, rows.c_str());
    }

    TempDir dir;
};

TEST_F(ClusterFile, EveryKeyIsReadInItsUnit) {
    const Cluster c = read_cluster(
        file("\xEF\xBB\xBF# a comment\r\n\n nodes=4 # of them\ngpus-per-node = 8\ngpu = hopper\nlink = pcie\n"
             "node-bandwidth = 370\nswitch-bandwidth = 476.5\nadapters = 2\nadapter-bandwidth = 12\n"
             "hop-latency = 2.5\ncpu = amd\nll128 = no\nchannels = 20\nhierarchical = yes\ninput-rate = 1200\n"
             "step = resnet50 f16 1.5 300\nstep = resnet18 bf16 0 90 4\nsource = a page\nsource = another = one\n",
             "some.place.cluster"));
    EXPECT_EQ(c.name, "some.place");
    EXPECT_EQ(c.nodes, 4);
    EXPECT_EQ(c.ranks_per_node, 8);
    EXPECT_EQ(c.gpu, GpuGeneration::hopper);
    EXPECT_EQ(c.link, NodeLink::pcie);
    EXPECT_DOUBLE_EQ(c.node_bandwidth, 370e9);
    EXPECT_DOUBLE_EQ(c.switch_bandwidth, 476.5e9);
    EXPECT_EQ(c.adapters, 2);
    EXPECT_DOUBLE_EQ(c.adapter_bandwidth, 12e9);
    EXPECT_DOUBLE_EQ(c.hop_latency, 2.5e-6);
    EXPECT_EQ(c.cpu, CpuVendor::amd);
    EXPECT_FALSE(c.ll128);
    EXPECT_EQ(c.channels, 20);
    EXPECT_TRUE(c.hierarchical);
    EXPECT_DOUBLE_EQ(c.images_per_second, 1200);
    ASSERT_EQ(c.steps.size(), 2u);
    EXPECT_EQ(c.steps[0].model + c.steps[0].precision, "resnet50f16");
    EXPECT_DOUBLE_EQ(c.steps[0].fixed, 1.5e-3);
    EXPECT_DOUBLE_EQ(c.steps[0].per_sample, 300e-6);
    EXPECT_EQ(c.steps[0].ranks_per_node, 1);
    EXPECT_EQ(c.steps[1].model + c.steps[1].precision, "resnet18bf16");
    EXPECT_EQ(c.steps[1].ranks_per_node, 4);
}

TEST_F(ClusterFile, WhatIsNotSaidIsUsual) {
    const Cluster c = read_cluster(file(least));
    EXPECT_EQ(c.gpu, GpuGeneration::ampere);
    EXPECT_EQ(c.link, NodeLink::nvlink);
    EXPECT_EQ(c.cpu, CpuVendor::intel);
    EXPECT_EQ(c.switch_bandwidth, 0);
    EXPECT_EQ(c.adapters, 0);
    EXPECT_TRUE(c.ll128);
    EXPECT_EQ(c.channels, 0);
    EXPECT_FALSE(c.hierarchical);
    EXPECT_EQ(c.images_per_second, 0);
    EXPECT_TRUE(c.all_reduces.empty() && c.steps.empty());
    EXPECT_EQ(read_cluster(file(least + "switch-bandwidth = 0\n")).switch_bandwidth, 0);
}

TEST_F(ClusterFile, ValuesThatAreNotAllowedAreNamedWithTheirLine) {
    for (const auto& [line, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
             {"adaptors = 2", {"'adaptors'", "did you mean adapters?"}},
             {"colour = blue", {"'colour'", "key = value", "jobs/CLUSTER_FILES.md"}},
             {"nodes 4", {"key = value"}},
             {"[nodes]", {"key = value"}},
             {"= 4", {"''"}},
             {"=", {"''"}},
             {"nodes = 2", {"nodes", "more than once"}},
             {"adapters =", {"adapters", "missing"}},
             {"adapters = 0", {"adapters", "'0'", "from 1"}},
             {"adapters = -1", {"adapters", "'-1'"}},
             {"adapters = 1.5", {"adapters", "'1.5'"}},
             {"adapter-bandwidth = 0", {"adapter-bandwidth", "'0'", "GB/s", "above 0"}},
             {"adapter-bandwidth = -12", {"adapter-bandwidth", "'-12'"}},
             {"adapter-bandwidth = 12 GB/s", {"'12 GB/s'", "GB/s (1e9 bytes)"}},
             {"adapter-bandwidth = 12e9", {"'12e9'", "at most 100000"}},
             {"adapter-bandwidth = nan", {"'nan'"}},
             {"adapter-bandwidth = inf", {"'inf'"}},
             {"adapter-bandwidth = fast", {"'fast'"}},
             {"switch-bandwidth = -1", {"switch-bandwidth", "'-1'", "0: the node has no such switch"}},
             {"hop-latency = -1", {"hop-latency", "microseconds"}},
             {"gpu = v100", {"gpu", "'v100'", "volta, ampere, hopper or blackwell"}},
             {"link = sli", {"link", "nvlink or pcie"}},
             {"cpu = arm", {"cpu", "intel, amd or other"}},
             {"ll128 = off", {"ll128", "'off'", "yes or no"}},
             {"ll128 = 1", {"ll128", "yes or no"}},
             {"channels = 65", {"channels", "1 to 64"}},
             {"hierarchical = 1", {"hierarchical", "yes or no"}},
             {"input-rate = 0", {"input-rate", "images/s"}},
             {"step = resnet50 f16 1.5", {"step", "MODEL PRECISION MILLISECONDS MICROSECONDS"}},
             {"step = resnet5 f16 1.5 300", {"step", "'resnet5'", "did you mean resnet50?"}},
             {"step = resnet50 f8 1.5 300", {"step", "'f8'"}},
             {"step = resnet50 f16 -1 300", {"step", "'-1'"}},
             {"step = resnet50 f16 1 0", {"step", "'0'"}}})
        EXPECT_EQ("", problem("# mine\n" + least + line + "\n", 5, words)) << line;
    EXPECT_EQ("", problem(least + "step = linear f32 0 1\nstep = linear f32 0 2\n", 5, {"step", "already"}));
}

TEST_F(ClusterFile, WhatIsMissingIsNamed) {
    EXPECT_EQ("", problem("gpus-per-node = 4\nnode-bandwidth = 20\n", 0, {"'nodes = "}));
    EXPECT_EQ("", problem("nodes = 1\nnode-bandwidth = 20\n", 0, {"'gpus-per-node = "}));
    EXPECT_EQ("", problem("nodes = 1\ngpus-per-node = 4\n", 0, {"'node-bandwidth = ", "GB/s"}));
    const std::string two = "nodes = 2\ngpus-per-node = 4\nnode-bandwidth = 20\n";
    EXPECT_EQ("", problem(two + "adapter-bandwidth = 12\n", 0, {"'adapters = ", "several nodes"}));
    EXPECT_EQ("", problem(two + "adapters = 1\n", 0, {"'adapter-bandwidth = ", "several nodes"}));
    EXPECT_EQ("", problem("", 0, {"'nodes = "}));
    EXPECT_EQ("", problem(least + "link = pcie\nll128 = yes\n", 0, {"ll128 = yes", "PCIe"}));
    EXPECT_FALSE(read_cluster(file(least + "ll128 = no\nlink = pcie\n")).ll128);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {dir.path("none"), "key = value"},
                                   [&] { read_cluster(dir.path("none")); }));
    EXPECT_EQ("", problem(std::string("nodes\0 = 1\n", 11), 0, {"is not a cluster file"}));
}

TEST_F(ClusterFile, TablesLieBesideTheFile) {
    std::filesystem::create_directories(dir.path("tables"));
    file(table("[1024; 1e-5], [4096; 2.5e-5]"), "tables/two.json");
    file(table("[1048576; 0.5]", 4, 1, 4), "one.json");
    const std::string text = "nodes = 2\ngpus-per-node = 4\nnode-bandwidth = 20\nadapters = 1\nadapter-bandwidth = 3\n";
    const Cluster c = read_cluster(
        file(text + "all-reduce-table = tables/two.json\nall-reduce-table = " + dir.path("one.json") + "\n"));
    ASSERT_EQ(c.all_reduces.size(), 3u);
    file(table("[1024; 1e-5]", 4, 2, 2), "narrow.json");
    const std::string more = "all-reduce-table = tables/two.json\nall-reduce-table = ";
    EXPECT_EQ(read_cluster(file(text + more + "narrow.json\n")).all_reduces.size(), 3u)
        << "of fewer ranks on as many hosts";
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"8 ranks on 2 hosts, too"},
                                   [&] { read_cluster(file(text + more + "tables/two.json\n")); }));
    EXPECT_EQ(c.all_reduces[0].nodes, 2);
    EXPECT_EQ(c.all_reduces[0].ranks_per_node, 4);
    EXPECT_EQ(c.all_reduces[0].bytes, 1024);
    EXPECT_DOUBLE_EQ(c.all_reduces[0].seconds, 1e-5);
    EXPECT_EQ(c.all_reduces[1].bytes, 4096);
    EXPECT_DOUBLE_EQ(c.all_reduces[1].seconds, 2.5e-5);
    EXPECT_EQ(c.all_reduces[2].nodes, 1);
    EXPECT_DOUBLE_EQ(c.all_reduces[2].seconds, 0.5);
}

TEST_F(ClusterFile, TablesThatCannotBeAreRefused) {
    const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
    for (const auto& [json, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
             {table("[1024; 2e-5], [2048; 1e-5]"), {"not monotonic", "1024 bytes took 20.00 us", "--iterations"}},
             {table("[2048; 1e-5], [1024; 2e-5]"), {"not monotonic", "1024 bytes follow 2048"}},
             {table("[1024; 1e-5], [1024; 2e-5]"), {"not monotonic"}},
             {table("[1e-3; 1e-5], [1024; 2e-5]"), {"impossible"}},
             {table("[1024; 1e-5], [1e308; 2e-5]"), {"impossible"}},
             {table("[1024; 1e-300], [2048; 2e-5]"), {"impossible"}},
             {table("[0; 1e-5]"), {"'bytes'", "above 0"}},
             {table("[1024; -1]"), {"'seconds'", "above 0"}},
             {table("[1024; \"1\"]"), {"'seconds'"}},
             {table("1024"), {"'bytes'"}},
             {R"({"all_reduce":{"ranks":2,"hosts":1,"ranks_per_host":2,"sizes":)" + deep + "}}", {"nested deeply"}},
             {table(""), {"no sizes", "comm-test --bytes"}},
             {table("[1024; 1e-5]", 1, 1, 1), {"one rank"}},
             {table("[1024; 1e-5]", 6, 2, 4), {"2 hosts with 4 ranks each are not 6"}},
             {table("[1024; 1e-5]", -8, 2, 4), {"'ranks'"}},
             {"{\"all_reduce\":{\"ranks\":2.5,\"hosts\":1,\"ranks_per_host\":2,\"sizes\":[1]}}", {"'ranks' is 2.5"}},
             {"{\"bench\":\"resnet50\"}", {"no table of all-reduces", "comm-test"}},
             {"[1]", {"no table of all-reduces"}},
             {"{\"all_reduce\":7}", {"no table of all-reduces"}},
             {"size time", {"no table of all-reduces"}}}) {
        file(json, "t.json");
        std::vector<std::string> all = words;
        all.insert(all.end(), {"all-reduce-table: ", dir.path("t.json")});
        EXPECT_EQ("", problem(least + "all-reduce-table = t.json\n", 4, all)) << json;
    }
    EXPECT_EQ("", problem(least + "all-reduce-table = none.json\n", 4, {dir.path("none.json"), "cannot be read"}));
    file(table("[1024; 1e-5], [2048; 1e-5]"), "t.json");
    EXPECT_EQ("", problem(least + "all-reduce-table = t.json\nall-reduce-table = t.json\n", 5, {"8 ranks on 2 hosts"}));
}

// Each step that is predicted looks at all of them.
TEST_F(ClusterFile, MoreThanAThousandSizesAreRefused) {
    const auto sizes = [&](int count, int hosts, const std::string& name) {
        std::string rows;
        for (int i = 1; i <= count; ++i) rows += (i > 1 ? ", [" : "[") + std::to_string(i) + "; 1]";
        file(table(rows, 4 * hosts, hosts, 4), name);
    };
    const std::string text =
        "nodes = 2\ngpus-per-node = 4\nnode-bandwidth = 20\nadapters = 1\nadapter-bandwidth = 3\n"
        "all-reduce-table = a.json\nall-reduce-table = b.json\n";
    sizes(600, 1, "a.json");
    sizes(400, 2, "b.json");
    EXPECT_EQ(read_cluster(file(text)).all_reduces.size(), 1000u);
    sizes(401, 2, "b.json");
    EXPECT_EQ("", problem(text, 7, {"more than 1000 sizes", "leave a table out"}));
    sizes(1001, 1, "a.json");
    EXPECT_EQ("", problem(text, 6, {"more than 1000 sizes"}));
}

/// Returns the images/s of one GPU at a batch, from a shipped file's line 'step'.
double rate(const Cluster& c, const std::string& precision, double batch) {
    for (const KnownStep& s : c.steps)
        if (s.model == "resnet50" && s.precision == precision) return batch / (s.fixed + s.per_sample * batch);
    return NAN;
}

// Compared with rows of MLPerf and DLPerf; the files state the bounds.
TEST_F(ClusterFile, ShippedStepsAreThePublishedRates) {
    struct Row {
        const char *file, *precision;
        double batch, images_per_second, within;
    };
    for (const Row& row : {Row{"dgx1-v100-edr", "f32", 128, 392.24, 1e-3},
                           {"dgx1-v100-edr", "f16", 256, 1281.83, 1e-3},
                           {"dgx-a100", "f16", 408, 3331.9, 0.03},
                           {"dgx-a100", "f16", 408, 3293.1, 0.03},
                           {"dgx-a100", "f16", 408, 3398.8, 0.03},
                           {"dgx-a100", "f16", 204, 3104.5, 0.03},
                           {"dgx-a100", "f16", 51, 2603.7, 0.03},
                           {"dgx-h100", "f16", 400, 7011.4, 0.08},
                           {"dgx-h100", "f16", 400, 7140.2, 0.08},
                           {"dgx-h100", "f16", 200, 6031.3, 0.08},
                           {"dgx-h100", "f16", 200, 6298.8, 0.08},
                           {"dgx-h100", "f16", 50, 4605.6, 0.08},
                           {"dgx-h100", "f16", 50, 4908.3, 0.08},
                           {"a100x4-hdr", "f16", 408, 3040.0, 0.01},
                           {"a100x4-hdr", "f16", 204, 3029.7, 0.01},
                           {"ethernet-25g", "f16", 408, 3260.4, 1e-3},
                           {"workstation-pcie", "f16", 400, 2185.5, 0.01},
                           {"workstation-pcie", "f16", 300, 2204.2, 0.01}}) {
        const Cluster c = read_cluster(formatted("jobs/site/%s.cluster", row.file));
        EXPECT_NEAR(rate(c, row.precision, row.batch) / row.images_per_second, 1, row.within)
            << row.file << ", batch " << row.batch;
    }
}

TEST_F(ClusterFile, ShippedMachinesAreWhatTheirNamesSay) {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator("jobs/site")) {
        if (entry.path().extension() != ".cluster") continue;
        const Cluster c = read_cluster(entry.path().string());
        EXPECT_FALSE(c.steps.empty()) << c.name;
        // an all-reduce cannot send more than the network's lines and the links carry
        EXPECT_LE(c.adapter_bandwidth, 50e9) << c.name;
        EXPECT_LE(c.node_bandwidth, 450e9) << c.name;
        EXPECT_EQ(read_file(entry.path().string()).rfind("# ", 0), 0u) << c.name << " says what it is";
        ++files;
    }
    EXPECT_EQ(files, 6);
    const Cluster dgx1 = read_cluster("jobs/site/dgx1-v100-edr.cluster"),
                  h100 = read_cluster("jobs/site/dgx-h100.cluster");
    EXPECT_EQ(dgx1.nodes * dgx1.ranks_per_node, 32);
    EXPECT_EQ(dgx1.gpu, GpuGeneration::volta);
    EXPECT_LT(dgx1.network_bandwidth(), 12.5e9) << "one adapter of 100 Gb/s";
    EXPECT_EQ(h100.gpu, GpuGeneration::hopper);
    EXPECT_GT(h100.switch_bandwidth, h100.node_bandwidth);
    EXPECT_LT(h100.network_bandwidth(), 8 * 50e9) << "eight adapters of 400 Gb/s";
}

TEST_F(ClusterFile, ATableThatIsAPipeIsRefused) {
    ASSERT_EQ(::mkfifo(dir.path("table.json").c_str(), 0666), 0);
    const std::string cluster = file(least + "all-reduce-table = table.json\n");
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {dir.path("table.json"), "not a regular file"},
                                   [&] { read_cluster(cluster); }));
}

}  // namespace
}  // namespace convoy::test
