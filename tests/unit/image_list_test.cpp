// Images found in a folder, in archives that tar made of it, or through a list: the same images,
// each with its bytes and class.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "data/input_bytes.h"
#include "data/shard_assignment.h"
#include "data/tar_index.h"
#include "tests/unit/image_lists.h"

namespace convoy::test {
namespace {
namespace fs = std::filesystem;

TEST_F(ImageLists, AFolderAClassIsSorted) {
    const ImageList list = listed({root_});
    EXPECT_EQ(contents(list), wanted_);
    EXPECT_EQ(list.count(Skipped::other).count, 2);
    fs::create_directories(root_ + "/n03/deep/er");
    write_file(root_ + "/n03/deep/er/c.jpg", "deep");
    write_file(dir_.path("elsewhere/d.jpg"), "linked");
    fs::create_directory_symlink(dir_.path("elsewhere"), root_ + "/n04");
    EXPECT_EQ(contents(listed({root_}))[4], "n03 c.jpg: deep");
    EXPECT_EQ(contents(listed({root_}))[5], "n04 d.jpg: linked");
}

TEST_F(ImageLists, WithNothingInThemAreRefused) {
    fs::create_directories(dir_.path("empty"));
    EXPECT_EQ("", problem({dir_.path("empty")},
                          {"empty", "neither a folder for each class nor tar archives", "the folder above"}));
    EXPECT_EQ("", problem({dir_.path("nowhere")}, {"nowhere", "No such file"}));
    EXPECT_EQ("", problem({"/dev/null"}, {"/dev/null", "not a regular file"}));
    EXPECT_EQ("", problem({tar("n02/notes.txt")}, {"all.tar", "holds no .jpg"}));
}

// At most ten are named.
TEST_F(ImageLists, AllBadSourcesAreCounted) {
    std::vector<std::string> from;
    for (int i = 0; i < 10; ++i) write_file(from.emplace_back(dir_.path("bad" + std::to_string(i) + ".tar")), "PK\3\4");
    EXPECT_EQ("", problem(from, {"bad0.tar: is a zip archive", "; " + from.back() + ": is"}));
    EXPECT_NE("", problem(from, {" more"}));
    for (int i = 10; i < 13; ++i)
        write_file(from.emplace_back(dir_.path("bad" + std::to_string(i) + ".tar")), "PK\3\4");
    EXPECT_EQ("", problem(from, {"bad9.tar: is a zip archive", "; and 3 more"}));
    EXPECT_NE("", problem(from, {"bad10.tar"}));
}

TEST_F(ImageLists, AnArchiveOfFoldersIsTheFolder) {
    for (const char* format : {"v7", "ustar", "gnu", "oldgnu", "pax"})
        for (const char* what : {"n01 n02 n10", "./n10 ./n02 ./n01", "--transform 's,^,some/train/,' n02 n10 n01"}) {
            const ImageList list = listed({tar(std::string("--format=") + format + " " + what)});
            EXPECT_EQ(contents(list), wanted_) << format << " " << what;
            EXPECT_EQ(list.count(Skipped::other).count, 1);
        }
}

TEST_F(ImageLists, LinksInArchivesAreCounted) {
    fs::create_hard_link(root_ + "/n01/x.jpg", root_ + "/n02/x.jpg");
    fs::create_symlink("z.jpeg", root_ + "/n10/link.jpg");
    const std::string flat = tar("n01 n02 n10");
    EXPECT_EQ(contents(listed({flat})), wanted_);
    EXPECT_EQ(listed({flat}).count(Skipped::other).count, 1) << "notes.txt";
    EXPECT_EQ(listed({flat}).count(Skipped::link).count, 2) << "a hard and a symbolic link";
    ASSERT_EQ(run("cd " + root_ + "/n10 && tar -cf ../n10.tar *").code, 0);
    EXPECT_EQ(listed({tar("n10.tar", "nested.tar")}).count(Skipped::link).count, 1);
}

TEST_F(ImageLists, LongNamesInArchivesAreRead) {
    const std::string deep =
        std::string(90, 'd') + "/" + std::string(90, 'e') + "/n01/" + std::string(120, 'f') + ".jpg";
    write_file(root_ + "/" + deep, "long");
    for (const char* format : {"gnu", "pax"}) {
        const ImageList list = listed({tar(std::string("--format=") + format + " " + deep + " n02")});
        EXPECT_EQ(contents(list).at(0), "n01 " + std::string(120, 'f') + ".jpg: long") << format;
        EXPECT_EQ(list.images.size(), 3u) << format;
    }
}

// A zero byte ends a field of the text that other ranks get.
TEST_F(ImageLists, NoNameHasAZeroByte) {
    const std::string name = "n01/" + std::string(120, 'f') + ".jpg";
    write_file(root_ + "/" + name, "long");
    const std::string path = tar("--format=pax " + name), whole = read_file(path);
    const size_t at = whole.find("path=" + name);
    ASSERT_NE(at, std::string::npos);
    for (const size_t byte : {5u, 50u, 128u}) {
        std::string odd = whole;
        odd[at + byte] = '\0';
        write_file(path, odd);
        EXPECT_EQ("", problem({path}, {path, "a pax header is damaged"})) << byte;
    }
    EXPECT_TRUE(assignment_of(std::string("0\0000\0", 4), 0, 1).shards.empty());
    EXPECT_ANY_THROW(assignment_of(std::string("0x\0000\0", 5), 0, 1));
    EXPECT_ANY_THROW(assignment_of(std::string("\0000\0", 3), 0, 1));
}

// ILSVRC's training images are an archive with one archive per class, which holds files without a
// folder.
TEST_F(ImageLists, AnArchiveOfArchivesIsTheFolder) {
    for (const char* label : {"n02", "n01", "n10"})
        ASSERT_EQ(run("cd " + root_ + "/" + label + " && tar -cf ../" + label + ".tar *").code, 0);
    EXPECT_EQ(contents(listed({tar("n10.tar n01.tar n02.tar")})), wanted_);
    // unpacked once: one archive per class, named one by one or as a folder
    EXPECT_EQ(contents(listed({root_ + "/n02.tar", root_ + "/n10.tar", root_ + "/n01.tar"})), wanted_);
    fs::create_directories(dir_.path("archives"));
    for (const char* label : {"n02", "n01", "n10"})
        fs::rename(root_ + "/" + label + ".tar", dir_.path("archives") + "/" + label + ".tar");
    EXPECT_EQ(contents(listed({dir_.path("archives")})), wanted_);
}

TEST_F(ImageLists, ACompressedArchiveIsUnpackedFirst) {
    const std::string plain = tar("n01 n02 n10");
    ASSERT_EQ(run("gzip -k " + plain).code, 0);
    EXPECT_EQ(contents(listed({plain + ".gz"})), wanted_);
    const std::string whole = read_file(plain + ".gz");
    write_file(plain + ".gz", whole.substr(0, whole.size() / 2));
    EXPECT_EQ("", problem({plain + ".gz"}, {"all.tar.gz", "truncated"}));
}

TEST_F(ImageLists, WebDatasetsHaveALabelBesideEachImage) {
    const std::string sets = dir_.path("sets");
    for (int shard = 0; shard < 2; ++shard)
        for (int i = 0; i < 3; ++i) {
            const std::string key = sets + "/s" + std::to_string(shard) + "/sample" + std::to_string(i);
            write_file(key + ".jpg", "image " + std::to_string(shard * 3 + i));
            write_file(key + ".cls", std::to_string(10 - i) + "\n");
            write_file(key + ".json", "{}");
        }
    for (const char* shard : {"s0", "s1"})
        ASSERT_EQ(run("cd " + sets + "/" + shard + " && tar -cf ../" + shard + ".tar *").code, 0);
    ImageList list = listed({sets + "/s0.tar", sets + "/s1.tar"});
    EXPECT_TRUE(list.numbered);
    const std::vector<std::string> wanted = {"8 sample2.jpg: image 2",  "8 sample2.jpg: image 5",
                                             "9 sample1.jpg: image 1",  "9 sample1.jpg: image 4",
                                             "10 sample0.jpg: image 0", "10 sample0.jpg: image 3"};
    EXPECT_EQ(contents(list), wanted);
    EXPECT_EQ(name_classes(list, "").ids.size(), 11u);
    EXPECT_EQ(list.images[5].class_index, 10);

    fs::remove(sets + "/s0/sample1.cls");
    ASSERT_EQ(run("cd " + sets + "/s0 && tar -cf ../s0.tar *").code, 0);
    EXPECT_EQ("", problem({sets + "/s0.tar"}, {"sample1.jpg", "has no label", "sample1.cls"}));
}

TEST_F(ImageLists, DamagedArchivesAreRefused) {
    const std::string path = tar("n01 n02 n10"), whole = read_file(path);
    const size_t content_end = whole.find_last_not_of('\0') + 1;
    for (size_t length = 512; length < content_end; length += 100) {
        write_file(path, whole.substr(0, length));
        EXPECT_EQ("", problem({path}, {path, "truncated"})) << length;
    }
    int refused = 0;
    for (size_t at = 0; at < 512; ++at) {  // a header holds a sum of all of its bytes
        std::string damaged = whole;
        damaged[at] ^= 4;
        write_file(path, damaged);
        refused += problem({path}, {}).empty();
    }
    EXPECT_EQ(refused, 511) << "all but the blank after the sum itself";
}

TEST_F(ImageLists, AListSaysPathsAndLabels) {
    const std::string path = root_ + "/list.txt";
    write_file(path, "n10/z.jpeg 1\r\nn01/x.jpg\t0\n\nn02/a.png  1\n");
    ImageList list = listed({path});
    EXPECT_TRUE(list.numbered);
    EXPECT_EQ(contents(list), (std::vector<std::string>{"0 x.jpg: x", "1 a.png: first", "1 z.jpeg: zzz"}));
    EXPECT_EQ(name_classes(list, "").names, (std::vector<std::string>{"0", "1"}));

    write_file(root_ + "/with blank/i j.jpg", "blank");
    write_file(path, "with blank/i j.jpg dog\nn01/x.jpg cat\n");
    list = listed({path});
    EXPECT_FALSE(list.numbered);
    EXPECT_EQ(contents(list), (std::vector<std::string>{"cat x.jpg: x", "dog i j.jpg: blank"}));
    EXPECT_EQ(name_classes(list, "").names, (std::vector<std::string>{"cat", "dog"}));

    write_file(path, "n01/x.jpg 0\nn01/none.jpg 1\n");
    EXPECT_EQ("", problem({path}, {"none.jpg", "missing"}));
    write_file(path, "n01/x.jpg 0\nlonely\n");
    EXPECT_EQ("", problem({path}, {"list.txt:2", "'lonely'", "PATH LABEL"}));
    write_file(path, "n01/x.jpg 0\nn01/y.JPG" + std::string(1, '\0') + " 0\n");
    EXPECT_EQ("", problem({path}, {"list.txt:2", "a zero byte", "PATH LABEL"}));
    write_file(path, "\n");
    EXPECT_EQ("", problem({path}, {"list.txt", "is empty"}));
}

TEST_F(ImageLists, ImagesThatLieElsewhereAreTakenAndCounted) {
    const auto outside = [](const ImageList& list) {
        std::vector<std::string> names = list.outside.examples;
        std::sort(names.begin(), names.end());
        return names;
    };
    using Names = std::vector<std::string>;
    write_file(dir_.path("private/a.jpg"), "a");
    write_file(dir_.path("root2/b.jpg"), "b");
    const std::string path = root_ + "/list.txt", absolute = dir_.path("private/a.jpg");
    write_file(path, "n01/x.jpg 0\n" + root_ + "/n02/a.png 1\nn01/../n10/z.jpeg 1\n./n10/w.Png 1\n");
    EXPECT_EQ(outside(listed({path})), Names()) << "absolute paths into the folder, and back into it";
    write_file(path, "n01/x.jpg 0\n../private/a.jpg 1\n../root2/b.jpg 1\n");
    EXPECT_EQ(outside(listed({path})), (Names{"../private/a.jpg", "../root2/b.jpg"}));
    EXPECT_EQ(contents(listed({path})).size(), 3u);
    write_file(path, "n01/x.jpg 0\n" + absolute + " 1\n");
    EXPECT_EQ(outside(listed({path})), Names{absolute});
    EXPECT_EQ(outside(listed({root_}, path)), Names{absolute});
    fs::remove(path);

    EXPECT_EQ(outside(listed({root_})), Names());
    fs::create_symlink("../n02/a.png", root_ + "/n01/within.png");
    fs::create_symlink(absolute, root_ + "/n01/one.jpg");
    fs::create_directory_symlink("../private", root_ + "/n03");
    fs::create_directory_symlink("../../root2", root_ + "/n02/deep");
    const ImageList list = listed({root_});
    EXPECT_EQ(outside(list), (Names{"n01/one.jpg", "n02/deep/b.jpg", "n03/a.jpg"}));
    EXPECT_EQ(list.outside.count, 3);
    fs::create_directory_symlink(root_, dir_.path("link"));
    EXPECT_EQ(listed({dir_.path("link")}).outside.count, 3) << "a link to the source is the source";
    write_file(root_ + "/list.txt", "n03/a.jpg 0\nn01/within.png 1\n");
    EXPECT_EQ(outside(listed({dir_.path("link/list.txt")})), Names{"n03/a.jpg"}) << "the list's own folder";
}

// The folder may come from someone else, whose link leads to an archive of the user.
TEST_F(ImageLists, ImagesOfAnArchiveElsewhereAreCounted) {
    const std::string sets = dir_.path("sets");
    fs::create_directory(sets);
    fs::rename(tar("n01", "own.tar"), sets + "/own.tar");
    tar("n02 n10");
    fs::create_symlink("own.tar", sets + "/again.tar");
    EXPECT_EQ(listed({sets}).outside.count, 0);
    fs::create_symlink("../all.tar", sets + "/photos.tar");
    const ImageList list = listed({sets});
    EXPECT_EQ(list.outside.count, 4);
    EXPECT_EQ(list.outside.examples, std::vector<std::string>{"photos.tar"});
}

// ILSVRC's validation images are 50,000 files without a folder; a list gives their labels.
TEST_F(ImageLists, AListSaysTheLabelsOfAFolderOrArchive) {
    for (const char* name : {"v1", "v2", "v3"}) write_file(dir_.path("val/") + name + ".JPEG", name);
    const std::string list = dir_.path("val.txt");
    write_file(list, "v3.JPEG n02\nv1.JPEG n10\n");
    const std::vector<std::string> wanted = {"n02 v3.JPEG: v3", "n10 v1.JPEG: v1"};
    EXPECT_EQ(contents(listed({dir_.path("val")}, list)), wanted);
    ASSERT_EQ(run("cd " + dir_.path("val") + " && tar -cf ../val.tar *").code, 0);
    ImageList test = listed({dir_.path("val.tar")}, list);
    EXPECT_EQ(contents(test), wanted);

    ImageList train = listed({root_});
    const ClassTable classes = name_classes(train, "");
    find_classes(test, classes);
    EXPECT_EQ(test.images[0].class_index, 1);
    EXPECT_EQ(test.images[1].class_index, 2);
    write_file(list, "v3.JPEG 2\nv2.JPEG 0\n");
    test = listed({dir_.path("val.tar")}, list);
    find_classes(test, classes);
    EXPECT_EQ(test.images[0].class_index, 0);
    EXPECT_EQ(test.images[1].class_index, 2);

    write_file(list, "v3.JPEG 3\n");
    test = listed({dir_.path("val.tar")}, list);
    EXPECT_EQ("",
              problem_of_error(Exit::bad_input, {"'3'", "v3.JPEG", "0 to 2"}, [&] { find_classes(test, classes); }));
    write_file(list, "v3.JPEG n99\n");
    test = listed({dir_.path("val.tar")}, list);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"'n99'", "v3.JPEG"}, [&] { find_classes(test, classes); }));
    write_file(list, "v4.JPEG n02\n");
    EXPECT_EQ("", problem({dir_.path("val.tar")}, {"v4.JPEG", "none of the archives"}, list));
}

}  // namespace
}  // namespace convoy::test
