// Shared by tests of the metric files: a folder for each test, readers that users would use instead
// of Convoy's own, and rows.
#pragma once
#include <gtest/gtest.h>
#include <hdf5_hl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "data/hdf5.h"
#include "run/metrics.h"

namespace convoy::test {
namespace fs = std::filesystem;

/// Gives each test its own folder, and removes it at the end.
class MetricsFolder : public ::testing::Test {
protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "convoy-metrics-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        dir = name;
    }
    void TearDown() override {
        std::error_code ignored;
        fs::remove_all(dir, ignored);
    }
    std::string h5() const { return dir + "/metrics.h5"; }
    std::string dir;
};

template <class T> std::vector<T> column(const std::string& path, const std::string& name, hid_t type) {
    const h5::Handle file = h5::open(path);
    std::vector<T> values(h5::extent(file, name, path).dims.at(0));
    h5::read_rows(h5::open_dataset(file, name, path), type, 0, values.size(), values.data(), path);
    return values;
}
inline std::vector<double> doubles(const std::string& path, const std::string& name) {
    return column<double>(path, name, H5T_NATIVE_DOUBLE);
}
inline std::vector<int64_t> integers(const std::string& path, const std::string& name) {
    return column<int64_t>(path, name, H5T_NATIVE_INT64);
}

inline std::vector<std::string> texts(const std::string& path, const std::string& name) {
    const h5::Handle file = h5::open(path), set = h5::open_dataset(file, name, path), type(H5Dget_type(set));
    const h5::Extent extent = h5::extent(file, name, path);
    std::string padded(extent.dims.at(0) * extent.element_bytes, '\0');
    h5::read_rows(set, type, 0, extent.dims[0], padded.data(), path);
    std::vector<std::string> values;
    for (size_t at = 0; at < padded.size(); at += extent.element_bytes)
        values.emplace_back(&padded[at], ::strnlen(&padded[at], extent.element_bytes));
    return values;
}

inline std::vector<nlohmann::json> json_lines(const std::string& dir) {
    std::vector<nlohmann::json> lines;
    std::ifstream file(dir + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
}

/// Runs a shell command. Returns its exit status, and its output on both streams.
inline std::pair<int, std::string> shell(const std::string& command) {
    std::string text;
    FILE* pipe = ::popen(("(" + command + ") 2>&1").c_str(), "r");
    if (!pipe) return {-1, ""};
    char buffer[4096];
    for (size_t n; (n = ::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
    const int status = ::pclose(pipe);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
}

/// Returns a Python that can import these modules; empty if there is none.
inline std::string python_with(const std::string& modules) {
    for (const std::string python : {"python3", "/usr/bin/python3"})
        if (shell(python + " -c 'import " + modules + "'").first == 0) return python;
    return "";
}

inline Exit code_of(const std::function<void()>& action, std::string* message = nullptr) {
    try {
        action();
    } catch (const Error& error) {
        if (message) *message = error.what();
        return error.code;
    }
    return Exit::done;
}

inline TrainRow train_row(int64_t step) {
    return {step, 1 + step / 10, 2.0 / double(step), 0.5, 0.1, 0.02, 0.001, 0.002};
}

inline void fill(Metrics& metrics) {
    for (int64_t step = 1; step <= 25; ++step) metrics.add(train_row(step));
    metrics.add(EvalRow{10, 1, 1.5, 0.4, 0.3});
    metrics.add(EvalRow{20, 2, NAN, 0.6, 0.2});
    metrics.add(EpochRow{1, 5120, 2.0, 2560.0});
    metrics.add(EpochRow{2, 5130, 1.9, 2700.0});
    for (int64_t rank = 0; rank < 2; ++rank)
        metrics.add(RankRow{rank, "node0" + std::to_string(rank), "Tesla Größe", 4});
    for (int64_t epoch = 1; epoch <= 2; ++epoch)
        for (int64_t rank = 0; rank < 2; ++rank) metrics.add(RankEpochRow{epoch, rank, 0.1, 1.0 + double(rank), 0.5});
    metrics.event(20, "checkpoint", "step-20.h5 written");
    metrics.event(25, "warning", std::string(5000, 'x') + "é");
}

/// Returns a text of variable length, read as other programs do.
inline std::string described(const h5::Handle& set, const char* name) {
    const h5::Handle attribute(H5Aopen(set, name, H5P_DEFAULT)), type(H5Aget_type(attribute));
    char* text = nullptr;
    if (H5Aread(attribute, type, &text) < 0 || !text) return "";
    const std::string copy = text;
    H5free_memory(text);
    return copy;
}

/// Checks that every data set of every group is a described, checksummed column, as long as the
/// others of its group.
inline void expect_described_tables(const std::string& path) {
    const h5::Handle file = h5::open(path);
    for (const char* group : {"train", "eval", "epochs", "ranks", "rank_epochs", "events"}) {
        const h5::Handle opened(H5Gopen2(file, group, H5P_DEFAULT));
        ASSERT_TRUE(opened.valid()) << group;
        H5G_info_t info;
        H5Gget_info(opened, &info);
        EXPECT_GE(info.nlinks, 3u);
        std::optional<hsize_t> rows;
        int scales = 0;
        for (hsize_t i = 0; i < info.nlinks; ++i) {
            char name[64];
            H5Lget_name_by_idx(opened, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT);
            const h5::Handle set = h5::open_dataset(opened, name, path);
            const h5::Extent extent = h5::extent(opened, name, path);
            EXPECT_FALSE(described(set, "units").empty()) << group << "/" << name;
            EXPECT_FALSE(described(set, "long_name").empty()) << group << "/" << name;
            EXPECT_EQ(extent.dims.size(), 1u);
            EXPECT_EQ(rows.value_or(extent.dims[0]), extent.dims[0]) << group << "/" << name;
            rows = extent.dims[0];
            if (H5DSis_scale(set) > 0)
                ++scales;
            else
                EXPECT_EQ(H5DSget_num_scales(set, 0), 1) << group << "/" << name;
        }
        EXPECT_EQ(scales, 1) << group;
    }
}

}  // namespace convoy::test
