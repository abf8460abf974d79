// Damaged, incomplete and hostile data sets: no wrong data is read silently, and no memory is
// allocated for what a file merely claims.
#include "data/shard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/commands.h"
#include "data/digest.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

void make(const std::string& dir, const std::string& size = "8x8x3", int64_t classes = 10) {
    testing::internal::CaptureStdout();
    convert({"synthetic", "--images", "60", "--test-images", "20", "--size", size, "--classes", std::to_string(classes),
             "--shards", "2", "--to", dir});
    testing::internal::GetCapturedStdout();
}

/// Returns everything that a trainer reads from a data set, as bytes. Throws the readers' errors.
std::string all_of(const std::string& dir) {
    std::string seen;
    for (const char* split : {"train", "test"}) {
        const SplitReader reader(dir, split);
        const SplitInfo& info = reader.info();
        std::vector<uint8_t> images(size_t(info.images * info.height * info.width * info.channels));
        std::vector<int32_t> labels(size_t(info.images));
        reader.read(0, info.images, images.data(), labels.data());
        seen.append(images.begin(), images.end());
        for (const int32_t label : labels) seen += std::to_string(label) + " ";
        for (const std::string& name : info.class_names) seen += name + " ";
        for (size_t c = 0; c < info.mean.size(); ++c)
            seen += std::to_string(info.mean[c]) + " " + std::to_string(info.stddev[c]) + " ";
    }
    return seen;
}

std::string verify_problem(const std::string& dir, const std::vector<std::string>& words) {
    testing::internal::CaptureStdout();
    const std::string problem = problem_of_error(Exit::bad_input, words, [&] { verify({dir}); });
    testing::internal::GetCapturedStdout();
    return problem;
}

/// Makes the manifest agree with the files again, so that a test gets past it.
void accept_into_manifest(const std::string& dir) {
    auto json = nlohmann::json::parse(read_file(dir + "/manifest.json"));
    for (auto& shard : json["shards"]) {
        const std::string path = dir + "/" + shard["file"].get<std::string>();
        shard["bytes"] = fs::file_size(path);
        shard["sha256"] = digest_of_file(Digest::Kind::sha256, path);
    }
    write_file(dir + "/manifest.json", json.dump());
}

class Shards : public testing::Test {
protected:
    void SetUp() override { make(data_); }
    /// Opens a shard for writing, lets `action` change it, and makes the manifest agree.
    template <class Action> void change(const std::string& path, const Action& action) {
        {
            const h5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
            action(file);
        }
        accept_into_manifest(data_);
    }
    std::string reader_problem(const std::vector<std::string>& words) {
        return problem_of_error(Exit::bad_input, words, [&] { all_of(data_); });
    }

    TempDir dir_;
    std::string data_ = dir_.path("data"), first_ = data_ + "/train-00000-of-00002.h5",
                second_ = data_ + "/train-00001-of-00002.h5";
};

TEST_F(Shards, NoBitFlipIsSilent) {
    const std::string truth = all_of(data_);
    std::vector<std::string> files = {first_, second_, data_ + "/test-00000-of-00001.h5"};
    std::mt19937 random(20240607);  // its sequence is fixed by the standard
    int noticed = 0;
    for (int trial = 0; trial < 200; ++trial) {
        const std::string& path = files[random() % files.size()];
        const std::string whole = read_file(path);
        std::string damaged = whole;
        const size_t position = random() % whole.size();
        damaged[position] = char(damaged[position] ^ 1 << random() % 8);
        write_file(path, damaged);
        try {
            EXPECT_EQ(all_of(data_), truth) << path << " differs silently after a flip in byte " << position;
        } catch (const Error& error) {
            EXPECT_EQ(error.code, Exit::bad_input);
            EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
            ++noticed;
        }
        EXPECT_EQ("", verify_problem(data_, {path}));
        write_file(path, whole);
    }
    EXPECT_GT(noticed, 100);
    EXPECT_EQ(all_of(data_), truth);
    record_fault("a bit flipped anywhere in a shard", "refused, or read as it was; `convoy verify` always notices",
                 std::to_string(noticed) + " refused, " + std::to_string(200 - noticed) + " read right", 200);
}

TEST_F(Shards, NoTruncationIsSilent) {
    const std::string whole = read_file(second_);
    std::mt19937 random(50);
    for (int trial = 0; trial < 50; ++trial) {
        write_file(second_, whole.substr(0, random() % whole.size()));
        EXPECT_EQ("", reader_problem({second_}));
        EXPECT_EQ("", verify_problem(data_, {second_}));
        if (trial % 5 == 0) {
            accept_into_manifest(data_);  // even if the manifest agrees
            EXPECT_EQ("", reader_problem({second_}));
        }
        write_file(second_, whole);
        accept_into_manifest(data_);
    }
    record_fault("a shard cut off anywhere", "refused, exit 3", "all refused", 50);
}

// Shards from before pictures for viewers existed.
TEST_F(Shards, WithoutPicturesAreReadAlike) {
    const std::string truth = all_of(data_);
    for (const std::string& path : {first_, second_}) {
        change(path, [](hid_t file) { ASSERT_GE(H5Ldelete(file, "/pictures", H5P_DEFAULT), 0); });
        EXPECT_EQ(all_of(data_), truth);
    }
    testing::internal::CaptureStdout();
    EXPECT_EQ(verify({data_}), 0);
    testing::internal::GetCapturedStdout();
}

TEST_F(Shards, DamagedPixelsNameFileAndDataSet) {
    std::string bytes = read_file(second_);
    std::vector<uint8_t> image(8 * 8 * 3);
    int32_t label = 0;
    SplitReader(data_, "train").read(30, 1, image.data(), &label);
    const size_t at = bytes.find(std::string(image.begin(), image.end()));
    ASSERT_NE(at, std::string::npos);
    bytes[at + 5] = char(bytes[at + 5] ^ 32);
    write_file(second_, bytes);
    EXPECT_EQ("", reader_problem({second_ + ": /images does not match its checksum"}));
}

TEST_F(Shards, IncompleteSetsAreNamed) {
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"nowhere", "convoy convert"},
                                   [&] { SplitReader(dir_.path("nowhere"), "train"); }));
    fs::create_directories(dir_.path("empty"));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"no train shards", "convoy convert"},
                                   [&] { SplitReader(dir_.path("empty"), "train"); }));
    fs::rename(first_, dir_.path("aside"));
    EXPECT_EQ("", reader_problem({first_, "missing"}));
    EXPECT_EQ("", verify_problem(data_, {first_, "missing"}));
    fs::copy_file(second_, first_);  // a renamed shard, even if the manifest agrees
    accept_into_manifest(data_);
    EXPECT_EQ("", reader_problem({first_, "renamed"}));
    fs::rename(dir_.path("aside"), first_);
    write_file(data_ + "/train-00002-of-00003.h5", "");
    EXPECT_EQ("", reader_problem({"two data sets"}));
    fs::remove(data_ + "/train-00002-of-00003.h5");
    fs::remove(second_);
    fs::create_directories(second_);
    EXPECT_EQ("", reader_problem({second_}));
}

TEST_F(Shards, ManifestMismatchIsNamed) {
    const std::string manifest = data_ + "/manifest.json", whole = read_file(manifest);
    const auto changed = [&](const auto& edit) {
        auto json = nlohmann::json::parse(whole);
        edit(json["shards"]);
        write_file(manifest, json.dump());
    };
    changed([](auto& shards) { shards[0]["sha256"] = std::string(64, '0'); });
    EXPECT_EQ("", verify_problem(data_, {first_, "SHA-256"}));
    changed([](auto& shards) { shards[0]["images"] = 29; });
    EXPECT_EQ("", reader_problem({first_, "30 images", "29"}));
    changed([](auto& shards) { shards[1]["bytes"] = -1; });
    EXPECT_EQ("", reader_problem({second_, "bytes"}));
    changed([](auto& shards) { shards.erase(1); });
    EXPECT_EQ("", reader_problem({second_, "not in manifest.json"}));
    changed([](auto& shards) { shards[0]["file"] = "../../etc/passwd"; });
    EXPECT_EQ("", reader_problem({"manifest.json", "damaged"}));
    for (const std::string& text : {std::string(), std::string("{}"), whole.substr(0, 200), std::string(100000, '[')}) {
        write_file(manifest, text);
        EXPECT_EQ("", reader_problem({"manifest.json", "damaged"}));
    }
    EXPECT_EQ("", reader_problem({"manifest.json", "nested deeply"})) << "a parser would take 70 times its size";
    fs::remove(manifest);
    EXPECT_EQ("", reader_problem({"manifest.json", "missing"}));
    EXPECT_EQ("", verify_problem(data_, {"manifest.json", "missing"}));
    write_file(manifest, whole);
    write_file(data_ + "/notes.txt", "");
    EXPECT_EQ("", verify_problem(data_, {"notes.txt"}));
}

TEST_F(Shards, MixedDataSetsAreRefused) {
    const std::string other = dir_.path("other");
    make(other, "8x6x3");
    fs::copy_file(other + "/train-00001-of-00002.h5", second_, fs::copy_options::overwrite_existing);
    accept_into_manifest(data_);
    EXPECT_EQ("", reader_problem({second_, "differ"}));
    change(second_, [&](hid_t file) {  // the same mean and classes, but still another shape
        const h5::Handle first = h5::open(first_);
        h5::set_attribute(file, "mean", h5::double_attributes(first, "mean", first_));
        h5::set_attribute(file, "stddev", h5::double_attributes(first, "stddev", first_));
    });
    EXPECT_EQ("", reader_problem({second_, "another shape"}));
    const SplitInfo train = SplitReader(other, "train").info(), test = SplitReader(data_, "test").info();
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"8x6x3", "8x8x3"}, [&] { check_same_shape(train, test, data_); }));
}

TEST_F(Shards, OtherClassNamesAreRefused) {
    const auto rename_a_class = [](hid_t file) {
        std::vector<std::string> names = h5::string_attributes(file, "class_names", "");
        std::swap(names[3], names[7]);
        h5::set_checked_attribute(file, "class_names", names);
    };
    change(second_, rename_a_class);
    EXPECT_EQ("", reader_problem({second_, "classes", "differ"}));
    change(first_, rename_a_class);  // now the training shards agree, but not with the test split
    const SplitInfo train = SplitReader(data_, "train").info(), test = SplitReader(data_, "test").info();
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {data_, "different data sets"},
                                   [&] { check_same_shape(train, test, data_); }));
}

// Convoy does not write such a name, and prints names in messages and tables.
TEST_F(Shards, LongClassNamesAreRefused) {
    change(first_, [](hid_t file) {
        std::vector<std::string> names = h5::string_attributes(file, "class_names", "");
        names[3] = std::string(1001, 'x');
        h5::set_checked_attribute(file, "class_names", names);
    });
    EXPECT_EQ("", reader_problem({first_, "1001 bytes, and 1000 are allowed"}));
}

/// Replaces `name` by a data set of these dims and layout; nothing is written into it.
void replace_data_set(hid_t file, const char* name, hid_t type, std::vector<hsize_t> dims, std::vector<hsize_t> chunk,
                      bool checksum) {
    H5Ldelete(file, name, H5P_DEFAULT);
    const h5::Handle space(H5Screate_simple(int(dims.size()), dims.data(), nullptr)),
        layout(H5Pcreate(H5P_DATASET_CREATE));
    if (!chunk.empty()) H5Pset_chunk(layout, int(chunk.size()), chunk.data());
    if (checksum) H5Pset_fletcher32(layout);
    const h5::Handle set(H5Dcreate2(file, name, type, space, H5P_DEFAULT, layout, H5P_DEFAULT));
    ASSERT_TRUE(set.valid());
}

TEST_F(Shards, HostileLayoutsAreRefusedBeforeAllocation) {
    const auto refused = [&](const char* name, hid_t type, std::vector<hsize_t> dims, std::vector<hsize_t> chunk,
                             bool checksum, const std::vector<std::string>& words) {
        const std::string whole = read_file(first_);
        change(first_, [&](hid_t file) { replace_data_set(file, name, type, dims, chunk, checksum); });
        const std::string problem = reader_problem(words);
        write_file(first_, whole);
        return problem;
    };
    const hid_t u8 = H5T_STD_U8LE, i32 = H5T_STD_I32LE;
    EXPECT_EQ("", refused("images", u8, {30, 8, 8, 3}, {}, false, {first_, "/images", "Fletcher-32"}));
    EXPECT_EQ("", refused("images", u8, {30, 8, 8, 3}, {30, 8, 8, 3}, false, {first_, "/images", "Fletcher-32"}));
    EXPECT_EQ("", refused("images", u8, {30, 8, 8, 3}, {30, 8, 8, 3}, true, {first_, "claims 5760 bytes"}));
    EXPECT_EQ("", refused("images", u8, {1000000000, 8, 8, 3}, {1, 8, 8, 3}, true,
                          {first_, "1000000000 images, but 30 labels"}));
    EXPECT_EQ("",
              refused("images", u8, {30, 4096, 4096, 16}, {1, 64, 64, 1}, true, {first_, "claims 8053063680 bytes"}));
    EXPECT_EQ("", refused("images", u8, {1ull << 62, 8, 8, 3}, {1, 8, 8, 3}, true, {first_, "number of images"}));
    EXPECT_EQ("", refused("images", u8, {30, 1 << 20, 8, 3}, {1, 8, 8, 3}, true, {first_, "height"}));
    EXPECT_EQ("", refused("images", u8, {30, 8, 8, 64}, {1, 8, 8, 3}, true, {first_, "channels"}));
    EXPECT_EQ("", refused("images", u8, {0, 8, 8, 3}, {1, 8, 8, 3}, true, {first_, "number of images"}));
    EXPECT_EQ("", refused("images", u8, {30, 4096, 4096, 16}, {15, 4096, 4096, 16}, true, {first_, "chunks of"}));
    EXPECT_EQ("", refused("images", u8, {30, 64, 3}, {30, 64, 3}, true, {first_, "rank 4"}));
    EXPECT_EQ("", refused("images", H5T_IEEE_F32LE, {30, 8, 8, 3}, {30, 8, 8, 3}, true, {first_, "uint8"}));
    EXPECT_EQ("", refused("labels", H5T_STD_U32LE, {30}, {30}, true, {first_, "/labels", "int32"}));
    EXPECT_EQ("", refused("labels", i32, {29}, {29}, true, {first_, "30 images", "29 labels"}));
    EXPECT_EQ("", refused("labels", i32, {30}, {}, false, {first_, "/labels", "Fletcher-32"}));
}

TEST_F(Shards, BadLabelsAndAttributesAreNamed) {
    const std::string whole = read_file(second_);
    for (const int32_t bad : {10, -1, INT32_MAX}) {
        change(second_, [&](hid_t file) {
            h5::write_rows(h5::open_dataset(file, "/labels", second_), H5T_NATIVE_INT32, 7, 1, &bad, second_);
        });
        EXPECT_EQ("", reader_problem({second_, "row 7", std::to_string(bad)}));
        EXPECT_EQ("", verify_problem(data_, {second_, "row 7"}));
        write_file(second_, whole);
    }
    const auto with = [&](const auto& edit, const std::vector<std::string>& words) {
        change(second_, edit);
        const std::string problem = reader_problem(words);
        write_file(second_, whole);
        return problem;
    };
    EXPECT_EQ("", with([](hid_t file) { h5::set_attribute(file, "version", int64_t(2)); }, {second_, "version 1"}));
    EXPECT_EQ("", with([](hid_t file) { h5::set_attribute(file, "version", "1"); }, {second_, "version", "type"}));
    EXPECT_EQ("", with([](hid_t file) { h5::set_attribute(file, "format", "other"); }, {second_, "convoy-images"}));
    EXPECT_EQ("", with([](hid_t file) { H5Adelete(file, "classes"); }, {second_, "classes", "missing"}));
    EXPECT_EQ("", with([](hid_t file) { h5::set_attribute(file, "classes", int64_t(1) << 40); }, {second_, "classes"}));
    EXPECT_EQ("", with([](hid_t file) { h5::set_attribute(file, "mean", std::vector<double>{0.5, NAN, 0.5}); },
                       {second_, "mean"}));
    EXPECT_EQ("", with([](hid_t file) { H5Ldelete(file, "labels", H5P_DEFAULT); }, {second_, "no data set /labels"}));
}

}  // namespace
}  // namespace convoy::test
