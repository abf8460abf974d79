// Implements the helpers of end-to-end tests. The test program is an MPI process itself, so its MPI
// environment is taken away from the jobs it starts.
#include "tests/support/cluster.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <sstream>

#include "data/hdf5.h"

namespace convoy::test {
namespace fs = std::filesystem;
namespace {

std::string excerpt(const Finished& f) {
    const auto tail = [](const std::string& text) {
        return text.substr(text.size() - std::min<size_t>(text.size(), 1500));
    };
    return "exit code " + std::to_string(f.code) + (f.code == 124 || f.code == 137 ? " (it hung)" : "") + "\n" +
           tail(f.out) + tail(f.err);
}

/// Returns an mpirun command line whose ranks share all cores.
std::string mpirun_command(const std::string& contexts, int seconds) {
    return with_limit("mpirun --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0 " + contexts, seconds);
}

herr_t collect(hid_t, const char* name, const H5L_info_t*, void* names) {
    static_cast<std::vector<std::string>*>(names)->push_back(name);
    return 0;
}

}  // namespace

std::string with_limit(const std::string& command, int seconds) {
    // Variables that say where OpenMPI is installed, where it keeps its files, and how its
    // processes communicate are kept.
    const std::string kept =
        "ALLOW_RUN_AS_ROOT|_component_path$|_silence_warning$|^OPAL_(PREFIX|PKGDATADIR|BINDIR)$|"
        "^OMPI_MCA_(orte_launch_agent|orte_tmpdir_base|btl|pml|plm)$";
    return "for name in $(compgen -e | grep -E '^(PMIX|OMPI|ORTE|OPAL)_' | grep -vE '" + kept +
           "'); do unset $name; done; export OMP_NUM_THREADS=; unset OMP_NUM_THREADS; timeout -k 5 " +
           std::to_string(seconds) + " " + command + " </dev/null";
}

std::string launch_command(int ranks, const std::string& arguments, int seconds) {
    return mpirun_command("-np " + std::to_string(ranks) + " " + sibling("convoy") + " " + arguments, seconds);
}

Finished launch(int ranks, const std::string& arguments, int seconds) {
    return run(launch_command(ranks, arguments, seconds));
}

Finished mpirun(const std::string& contexts, int seconds) { return run(mpirun_command(contexts, seconds)); }

std::string problem_on_ranks(int ranks) {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = std::string(test.test_suite_name()) + "." + test.name(),
                      program = fs::read_symlink("/proc/self/exe");
    const Finished f = mpirun("-np " + std::to_string(ranks) + " " + program +
                              " --gtest_brief=0 --gtest_color=no --gtest_filter=" + name);
    // ranks may interleave their lines
    if (f.code == 0 && count(f.out, "[  PASSED  ] 1 test.") > 0) return "";
    return name + " on " + std::to_string(ranks) + " ranks: " + excerpt(f);
}

Finished convoy_alone(const std::string& arguments, int seconds) {
    return run(with_limit(sibling("convoy") + " " + arguments, seconds));
}

Finished sampled(const std::string& command, const std::string& run_dir, int rows) {
    const std::string pid = run_dir + ".pid", lines = run_dir + "/metrics.jsonl";
    const std::string limited = with_limit("bash -c 'echo $$ >" + pid + "; exec " + command + "'", 100);
    return run("{ " + limited + "; } & job=$!; for i in $(seq 600); do sleep 0.1; n=$(grep -c '\"kind\":\"system\"' " +
               lines + " 2>/dev/null); [ ${n:-0} -ge " + std::to_string(rows) + " ] && break; done; kill -USR1 $(cat " +
               pid + "); wait $job");
}

std::string failure(const Finished& f) { return f.code == 0 ? "" : excerpt(f); }

std::string refusal(const Finished& f, Exit code, const std::vector<std::string>& words) {
    std::vector<std::string> said;
    std::istringstream in(f.err);
    for (std::string line; std::getline(in, line);) {
        std::erase(line, '\0');  // OpenMPI 5 ends its own messages with one
        if (line.starts_with("convoy:")) said.push_back(line);
    }
    if (f.code != int(code)) return "not exit code " + std::to_string(int(code)) + ", but " + excerpt(f);
    if (said.size() != 1)
        return std::to_string(said.size()) + " lines that start with 'convoy:', not one: " + excerpt(f);
    for (const std::string& word : words)
        if (said[0].find(word) == std::string::npos) return "does not say '" + word + "': " + said[0];
    return "";
}

std::string value_in(const std::string& config, const std::string& key) {
    std::istringstream in(config);
    for (std::string line; std::getline(in, line);)
        if (line.starts_with(key + " = ")) return line.substr(key.size() + 3);
    return "";
}

void make_data(const std::string& dir, int images, int test_images, const std::string& size, int shards, int classes) {
    const Finished made =
        convoy_alone("convert synthetic --images " + std::to_string(images) + " --test-images " +
                     std::to_string(test_images) + " --size " + size + " --shards " + std::to_string(shards) +
                     " --classes " + std::to_string(classes) + " --to " + dir);
    require(made.code == 0, "a synthetic data set can be made");
}

std::vector<double> column(const std::string& run_dir, const std::string& name) {
    const std::string path = run_dir + "/metrics.h5";
    const h5::Handle file = h5::open(path);
    std::vector<double> values(h5::extent(file, name, path).dims.at(0));
    h5::read_rows(h5::open_dataset(file, name, path), H5T_NATIVE_DOUBLE, 0, values.size(), values.data(), path);
    return values;
}

std::map<std::string, std::vector<float>> tensors(const std::string& model_file) {
    const h5::Handle file = h5::open(model_file), group(H5Gopen2(file, "tensors", H5P_DEFAULT));
    std::vector<std::string> names;
    H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names);
    std::map<std::string, std::vector<float>> all;
    for (const std::string& name : names) {
        const std::vector<hsize_t> dims = h5::extent(group, name, model_file).dims;
        size_t elements = 1;
        for (hsize_t n : dims) elements *= n;
        all[name].resize(elements);
        h5::read_rows(h5::open_dataset(group, name, model_file), H5T_NATIVE_FLOAT, 0, dims.at(0), all[name].data(),
                      model_file);
    }
    return all;
}

double deviation(const std::vector<double>& a, const std::vector<double>& b) {
    constexpr double never = std::numeric_limits<double>::infinity();
    if (a.size() != b.size() || a.empty()) return never;
    double most = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double relative = std::abs(a[i] / b[i] - 1);
        if (!std::isfinite(relative)) return never;
        most = std::max(most, relative);
    }
    return most;
}

Score score_of(const std::string& out) {
    Score score;
    // "… loss 0.2705, accuracy 92.66 % (9266 of 10000)…"; training writes no comma
    const size_t at = std::max(out.rfind("  test  loss ") + 1, out.rfind("): loss ") + 1);
    if (at == 0) return score;
    std::string line = out.substr(at, out.find('\n', at) - at);
    const size_t loss = line.find("loss "), bracket = line.rfind("% (");
    std::sscanf(line.c_str() + loss, "loss %lf", &score.loss);
    if (bracket != std::string::npos)
        std::sscanf(line.c_str() + bracket, "%% (%lld of %lld)", &score.correct, &score.images);
    return score;
}

void record_fault(const std::string& fault, const std::string& promised, const std::string& observed, int runs) {
    static int rows = 0;  // static, because one test may record several rows
    testing::Test::RecordProperty("fault" + std::to_string(rows++),
                                  fault + " | " + promised + " | " + observed + " | " + std::to_string(runs));
}

int count(const std::string& text, const std::string& what) {
    int n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
    return n;
}

}  // namespace convoy::test
