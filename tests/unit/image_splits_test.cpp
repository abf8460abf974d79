// Sources that hold their own splits, and images that are in two of them.
#include "data/image_splits.h"

#include <filesystem>

#include "tests/unit/image_lists.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

class ImageSplits : public ImageLists {
protected:
    std::string set_ = dir_.path("data/set");

    void add(const std::string& name) const { write_file(set_ + "/" + name, name); }
    /// Returns "TRAIN | TEST": the images of a source, by class and name; "none" if it has no
    /// splits.
    std::string splits_of(const std::string& source) const {
        ImageList train = listed({source});
        const std::optional<ImageList> test = take_test_images(train);
        if (!test) return "none";
        std::string text;
        for (const ImageList* list : {&std::as_const(train), &*test}) {
            text += text.empty() ? "" : "|";
            for (const ListedImage& image : list->images)
                text += " " + image.label + "/" + fs::path(image.name).filename().string();
            text += " ";
        }
        return text;
    }
    std::string packed() const {
        EXPECT_EQ(run("cd " + dir_.path("data") + " && tar -cf ../set.tar set").code, 0);
        return dir_.path("set.tar");
    }
};

// torchvision's ImageFolder is given train/ and val/; people give the folder that holds both.
TEST_F(ImageSplits, TrainAndValAreSplits) {
    for (const char* name : {"train/cat/1.png", "train/cat/2.png", "train/dog/3.png", "val/cat/4.png", "val/dog/5.png"})
        add(name);
    const std::string wanted = " cat/1.png cat/2.png dog/3.png | cat/4.png dog/5.png ";
    EXPECT_EQ(splits_of(set_), wanted);
    EXPECT_EQ(splits_of(packed()), wanted);
    EXPECT_EQ(splits_of(dir_.path("data")), wanted) << "one folder above";
    ImageList train = listed({set_});
    const std::optional<ImageList> test = take_test_images(train);
    EXPECT_EQ(train.given[0].images, 3);
    EXPECT_EQ(test->given[0].images, 2);
    EXPECT_EQ(count_in_both(train, *test).count, 0);
    add("train/cover.png");
    add("logo.png");
    for (const std::string& source : {set_, packed()}) {
        EXPECT_EQ(splits_of(source), wanted) << "images beside the classes change nothing";
        train = listed({source});
        take_test_images(train);
        EXPECT_EQ(train.count(Skipped::unclassed).count, 2);
    }
}

TEST_F(ImageSplits, ValIsPreferredToTest) {
    for (const char* name : {"Train/cat/1.png", "test/cat/9.png", "validation/cat/4.png", "sketches/cat/7.png"})
        add(name);
    for (const std::string& source : {set_, packed()}) {
        EXPECT_EQ(splits_of(source), " cat/1.png | cat/4.png ");
        ImageList train = listed({source});
        take_test_images(train);
        EXPECT_EQ(train.count(Skipped::other_split).count, 2);
    }
    fs::remove_all(set_ + "/validation");
    EXPECT_EQ(splits_of(set_), " cat/1.png | cat/9.png ");
}

TEST_F(ImageSplits, ClassesOfTheseNamesAreClasses) {
    for (const char* name : {"train/1.png", "train/new/4.png", "val/2.png", "bus/3.png"}) add(name);
    EXPECT_EQ(splits_of(set_), "none") << "vehicles: no classes below";
    EXPECT_EQ(splits_of(packed()), "none");
    EXPECT_EQ(contents(listed({set_})).size(), 4u);
    fs::remove_all(set_);
    for (const char* name : {"train/cat/1.png", "bus/new/3.png"}) add(name);
    EXPECT_EQ(splits_of(set_), "none") << "one split alone";
    EXPECT_EQ(splits_of(root_), "none");
    const std::string list = dir_.path("list.txt");
    write_file(list, "data/set/train/cat/1.png 0\ndata/set/bus/new/3.png 1\n");
    EXPECT_EQ(splits_of(list), "none");
}

// WebDataset's shards have such names. Each of several sources may hold both folders.
TEST_F(ImageSplits, SourcesOfTheirOwnNamesAndSeveralSourcesAreDealt) {
    for (const char* name : {"cat/1.png", "dog/2.png"}) write_file(dir_.path("part/") + name, name);
    const auto pack = [&](const std::string& name) {
        fs::create_directories(dir_.path("shards"));
        EXPECT_EQ(run("cd " + dir_.path("part") + " && tar -cf ../shards/" + name + " *").code, 0);
    };
    for (const char* name : {"train-0000.tar", "train-0001.tar", "val-0000.tar"}) pack(name);
    EXPECT_EQ(splits_of(dir_.path("shards")), " cat/1.png cat/1.png dog/2.png dog/2.png | cat/1.png dog/2.png ");
    pack("test-0000.tar");
    ImageList train = listed({dir_.path("shards")});
    const std::optional<ImageList> test = take_test_images(train);
    ASSERT_TRUE(test);
    EXPECT_EQ(train.count(Skipped::other_split).count, 2);
    EXPECT_EQ(test->given.size(), 1u);
    EXPECT_EQ(train.given.size(), 2u);

    for (const char* name :
         {"a/train/cat/1.png", "a/val/cat/2.png", "b/training/cat/3.png", "b/dev/dog/4.png", "c/cat/5.png"})
        add(name);
    ImageList several = listed({set_ + "/a", set_ + "/b", set_ + "/c"});
    const std::optional<ImageList> both = take_test_images(several);
    ASSERT_TRUE(both);
    EXPECT_EQ(contents(several), (std::vector<std::string>{"cat 5.png: c/cat/5.png", "cat 1.png: a/train/cat/1.png",
                                                           "cat 3.png: b/training/cat/3.png"}));
    EXPECT_EQ(contents(*both), (std::vector<std::string>{"cat 2.png: a/val/cat/2.png", "dog 4.png: b/dev/dog/4.png"}));
}

// One archive per class, in folders of the splits.
TEST_F(ImageSplits, ArchivesInAnArchiveAreDealt) {
    for (const char* name : {"cat/1.png", "dog/2.png"}) write_file(dir_.path("part/") + name, name);
    ASSERT_EQ(run("cd " + dir_.path("part") +
                  " && mkdir train val && for c in cat dog; do tar -cf train/$c.tar -C $c . && "
                  "cp train/$c.tar val; done && tar -cf ../nested.tar train val")
                  .code,
              0);
    EXPECT_EQ(splits_of(dir_.path("nested.tar")), " cat/1.png dog/2.png | cat/1.png dog/2.png ");
}

TEST_F(ImageSplits, ImagesOfBothAreCounted) {
    const std::string list = root_ + "/list.txt";
    write_file(list, "n01/x.jpg n01\n./n02/a.png n02\n");
    EXPECT_EQ(count_in_both(listed({root_}), listed({list})).count, 2);
    EXPECT_EQ(count_in_both(listed({root_}), listed({root_})).count, 6);
    EXPECT_EQ(count_in_both(listed({tar("n01 n02")}), listed({root_})).count, 0)
        << "archives are not compared with files";
    ASSERT_EQ(run("gzip " + dir_.path("all.tar")).code, 0);
    const std::vector<std::string> packed = {dir_.path("all.tar.gz")};
    const auto unpacked = [&](const char* to) { return list_images({packed, "", &working_, to}); };
    EXPECT_EQ(count_in_both(unpacked("a"), unpacked("b")).count, 4);
}

}  // namespace
}  // namespace convoy::test
