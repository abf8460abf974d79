// Files that a user names, through the executable: recipes of other editors, devices, pipes, and
// archives that unpack to far more than their size.
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

TEST(Inputs, RecipesOfOtherEditorsAreRead) {
    const TempDir dir;
    const std::string mark = "\xEF\xBB\xBF",
                      plain = "# a recipe\nmodel = mnist-conv\nbatch-size = 48\n\ndata = some where\n";
    std::string carriage;
    for (const char c : plain) carriage += c == '\n' ? "\r\n" : std::string(1, c);
    const auto printed = [&](const std::string& recipe) {
        write_file(dir.path("a.cfg"), recipe);
        return convoy_alone("train --print-config --config " + dir.path("a.cfg"));
    };
    const Finished expected =
        convoy_alone("train --print-config --model mnist-conv --batch-size 48 --data 'some where'");
    ASSERT_EQ("", failure(expected));
    for (const std::string& recipe :
         {mark + plain, carriage, mark + carriage, mark + plain.substr(plain.find('\n') + 1), plain + mark}) {
        const Finished f = printed(recipe);
        EXPECT_EQ("", failure(f));
        EXPECT_EQ(f.out, expected.out);
    }
    EXPECT_EQ("", refusal(printed(std::string("\xFF\xFEm\0o\0", 6)), Exit::bad_input, {"a.cfg", "is UTF-16", "UTF-8"}));
}

/// Runs `convoy ARGUMENTS` with limits on time and memory.
Finished run_limited(const std::string& arguments) {
    return run("ulimit -v 8000000; " + with_limit(sibling("convoy") + " " + arguments, 30));
}

/// A command that must be refused at once, and the words that its message must hold.
struct Refused {
    std::string command;
    std::vector<std::string> words;
};

// Without a refusal, each would wait for a writer or read until memory is full.
TEST(Inputs, DevicesAndPipesAreRefused) {
    const TempDir dir;
    const std::string pipe = dir.path("pipe"), sample = "input/cifar10-sample", run = dir.path("run"),
                      set = dir.path("set");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    fs::create_directories(run);
    fs::create_directories(set);
    std::vector<Refused> cases = {
        {"train --batch-size 4 --data x --config /dev/zero", {"/dev/zero", "a recipe is", "1 MiB"}},
        {"train --batch-size 4 --data x --config " + dir.path(), {dir.path(), "cannot be read"}},
        {"train --batch-size 4 --data x --config " + pipe, {pipe, "no process writes into this pipe", "--config"}},
        {"convert mnist --from /dev/zero --to " + dir.path("out"), {"/dev/zero", "not a folder"}}};
    for (const std::string& path : {std::string("/dev/zero"), pipe}) {
        cases.push_back({"convert cifar10 --from " + path + " --to " + dir.path("out"), {path, "not a regular file"}});
        cases.push_back({"evaluate --data " + sample + " --model-file " + path, {path, "not a regular file"}});
        cases.push_back({"report " + path, {path, "not a regular file"}});
        cases.push_back({"train --batch-size 4 --model resnet18 --data " + path, {path, "Not a directory"}});
    }
    for (const Refused& r : cases)
        EXPECT_EQ("", refusal(run_limited(r.command), Exit::bad_input, r.words)) << r.command;
    for (const std::string& path : {std::string("/dev/zero"), pipe}) {
        for (const std::string& link : {set + "/manifest.json", run + "/oom"}) {
            fs::remove(link);
            fs::create_symlink(path, link);
        }
        EXPECT_EQ("", refusal(run_limited("verify " + set), Exit::bad_input, {"manifest.json", "not a regular file"}));
        EXPECT_EQ("", refusal(run_limited("report " + run), Exit::bad_input, {"oom", "not a regular file"}));
    }
}

TEST(Inputs, ARecipeMayComeThroughAPipe) {
    const Finished f = run_limited("train --print-config --config <(echo batch-size = 48; echo data = x)");
    EXPECT_EQ("", failure(f));
    EXPECT_NE(f.out.find("batch-size = 48\n"), std::string::npos) << f.out;
}

/// Returns the peak memory of `convoy ARGUMENTS` in MiB, according to the kernel. Its output goes
/// into `finished`.
double peak_of(const std::string& arguments, Finished& finished) {
    const TempDir dir;
    const std::string script =
        "import resource, subprocess, sys; code = subprocess.call(sys.argv[2:]); "
        "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)); sys.exit(code)";
    finished = run(
        with_limit("python3 -c \"" + script + "\" " + dir.path("kib") + " " + sibling("convoy") + " " + arguments, 60));
    return std::stod(read_file(dir.path("kib"))) / 1024;
}

// A few megabytes each; they unpack to a gigabyte and more.
TEST(Inputs, ArchivesThatUnpackToFarMoreAreRefusedInLittleMemory) {
    const TempDir dir;
    const std::string to = " --to " + dir.path("out");
    const Finished made = run("cd " + dir.path() + R"( && set -e
        head -c 64M /dev/zero | gzip -1 >zeros
        bomb() { for i in {1..18}; do cat zeros; done; }
        for name in data_batch_1.bin batches.meta.txt notes; do
            truncate -s 3G $name
            { tar -cf - $name 2>/dev/null | head -c 512 | gzip; bomb; } >$name.tar.gz
        done
        mkdir idx
        printf '\0\0\10\3\0\0\0\2\0\0\0\3\0\0\0\4' | gzip >idx/train-images-idx3-ubyte.gz
        bomb >>idx/train-images-idx3-ubyte.gz
        mkdir large
        printf '\0\0\10\3\0\20\0\0\0\0\0\40\0\0\0\40' | gzip >large/train-images-idx3-ubyte.gz
        bomb >>large/train-images-idx3-ubyte.gz
        head -c 2M /dev/urandom | gzip >>large/train-images-idx3-ubyte.gz
        truncate -s 1M holes && tar -czSf holes.tar.gz holes
        python3 -c '
import io, tarfile
map = b"5000000\n" + b"0\n0\n" * 5000000
with tarfile.open("map.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
    member = tarfile.TarInfo("x")
    member.size = len(map)
    member.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x",
                          "GNU.sparse.realsize": "1"}
    archive.addfile(member, io.BytesIO(map))')");
    ASSERT_EQ(made.code, 0) << made.err;
    Finished f;
    const double usual = peak_of("convert synthetic --images 9 --size 2x2x1" + to, f);
    ASSERT_EQ("", failure(f));
    const double most = usual + 64;  // a batch of CIFAR-10 has 30 MB, and there are buffers
    fs::remove_all(dir.path("out"));
    const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
        {"cifar10 --from " + dir.path("data_batch_1.bin.tar.gz"), {"data_batch_1.bin", "3221225472 bytes", "30730000"}},
        {"cifar10 --from " + dir.path("batches.meta.txt.tar.gz"), {"batches.meta.txt", "3221225472 bytes", "65536"}},
        {"cifar10 --from " + dir.path("notes.tar.gz"), {"notes.tar.gz", "unpacks to more than 1073741824 bytes"}},
        {"cifar10 --from " + dir.path("holes.tar.gz"), {"holes.tar.gz", "a sparse file"}},
        {"cifar10 --from " + dir.path("map.tar.gz"), {"map.tar.gz", "a header of more than 1 MiB"}},
        {"mnist --from " + dir.path("idx"), {"train-images-idx3-ubyte.gz", "header says 24 bytes", "holds more"}}};
    for (const auto& [source, words] : cases) {
        EXPECT_LT(peak_of("convert " + source + to, f), most) << source;
        EXPECT_EQ("", refusal(f, Exit::bad_input, words)) << source;
    }
    // 1 GiB of images, according to the header: not a bomb, but more than there is room for.
    const Finished large = run("ulimit -v 800000; " +
                               with_limit(sibling("convoy") + " convert mnist --from " + dir.path("large") + to, 30));
    EXPECT_EQ("", refusal(large, Exit::out_of_memory, {"large/train-images-idx3-ubyte.gz", "1024 MiB", "ulimit -v"}));
}

/// Writes a file of the oldest format, which has no checksums, with an attribute. The header then
/// claims that the attribute is the header's continuation of 0 bytes. HDF5 1.10 requests 0 bytes of
/// memory and takes the result for a failure.
void write_with_broken_header(const std::string& path) {
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate(H5S_SCALAR), type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, 12);
    const hid_t attribute = H5Acreate2(file, "format", type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, "convoy-model");
    H5Aclose(attribute);
    H5Tclose(type);
    H5Sclose(space);
    H5Fclose(file);
    std::string bytes = read_file(path);
    const size_t name = bytes.find("format"), kind = name - 16;
    ASSERT_NE(name, std::string::npos);
    ASSERT_EQ(bytes[kind], 0x0c);
    bytes[kind] = 0x10;
    write_file(path, bytes);
}

TEST(Inputs, ADamagedFileIsNoShortageOfMemory) {
    const TempDir dir;
    const std::string path = dir.path("model.h5");
    write_with_broken_header(path);
    for (const std::string& command : {"report " + path, "evaluate --data input/cifar10-sample --model-file " + path})
        EXPECT_EQ("", refusal(run_limited(command), Exit::bad_input, {path})) << command;
}

}  // namespace
}  // namespace convoy::test
