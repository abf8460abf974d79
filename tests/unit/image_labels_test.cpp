// Tests which class an image gets from its label, and which image a line of a list means.
#include <algorithm>
#include <ctime>
#include <functional>

#include "tests/unit/image_lists.h"

namespace convoy::test {
namespace {

class ImageLabels : public ImageLists {
protected:
    /// Makes an archive with members of these names: Python's `name`, which may use the variable i.
    std::string archive_of(const std::string& name, int count) const {
        const std::string archive = dir_.path("many.tar");
        EXPECT_EQ("", run("python3 -c \"import tarfile\nwith tarfile.open('" + archive +
                          "', 'w', format=tarfile.USTAR_FORMAT) as tar:\n    for i in range(" + std::to_string(count) +
                          "): tar.addfile(tarfile.TarInfo(" + name + "))\"")
                          .err);
        return archive;
    }
    /// Returns the processor's time that this takes, the shortest of three.
    static double seconds_of(const std::function<void()>& work) {
        double least = 1e9;
        for (int i = 0; i < 3; ++i) {
            const std::clock_t start = std::clock();
            work();
            least = std::min(least, double(std::clock() - start) / CLOCKS_PER_SEC);
        }
        return least;
    }
};

// Four times as many names take four times as long, and some more for sorting. They took sixteen
// times as long when each line was compared with each member.
constexpr int few = 5'000, many = 4 * few;
constexpr double most_longer = 9;

// Each class has its own 1.jpg, and each archive its own copy of all.
TEST_F(ImageLabels, AListNamesMembersByAsMuchOfTheirPathsAsItTakes) {
    for (const char* name : {"cat/1", "cat/2", "dog/1"}) write_file(dir_.path("in/data/") + name + ".jpg", name);
    const auto pack = [&](const std::string& folder, const std::string& archive) {
        EXPECT_EQ(run("cd " + dir_.path("in") + " && tar -cf ../" + archive + " " + folder).code, 0);
        return dir_.path(archive);
    };
    const std::string list = dir_.path("list.txt"), all = pack("data", "all.tar");
    const auto of = [&](const std::string& lines) {
        write_file(list, lines);
        return contents(listed({all}, list));
    };
    const std::vector<std::string> wanted = {"0 1.jpg: cat/1", "1 1.jpg: dog/1", "2 2.jpg: cat/2"};
    EXPECT_EQ(of("data/dog/1.jpg 1\ndata/cat/1.jpg 0\ndata/cat/2.jpg 2\n"), wanted);
    EXPECT_EQ(of("dog/1.jpg 1\n./cat/./1.jpg 0\n2.jpg 2\n"), wanted);
    EXPECT_EQ(of("/mnt/data/dog/1.jpg 1\n/mnt/data/cat/1.jpg 0\n/mnt/data/cat/2.jpg 2\n"), wanted);
    EXPECT_EQ("", [&] {
        write_file(list, "1.jpg 0\n");
        return problem({all}, {"list.txt", "1.jpg may be", all + ": data/cat/1.jpg", all + ": data/dog/1.jpg"}, list);
    }());
    write_file(list, "dog/2.jpg 0\n");
    EXPECT_EQ("", problem({all}, {"dog/2.jpg", "none of the archives"}, list));

    const std::string cats = pack("data/cat", "cats.tar");
    write_file(list, "data/cat/2.jpg 0\n");
    EXPECT_EQ("", problem({all, cats}, {"data/cat/2.jpg may be", all + ": data", cats + ": data"}, list));
    write_file(list, "data/dog/1.jpg 0\n");
    EXPECT_EQ(contents(listed({cats, all}, list)), std::vector<std::string>{"0 1.jpg: dog/1"});
}

// No line is compared with every member of its file name if it names one in full.
TEST_F(ImageLabels, AListMayNameManyMembersOfOneFileName) {
    constexpr int count = 30'000;
    const std::string archive = archive_of("f'data/{i}/img.jpg'", count), list = dir_.path("list.txt");
    for (const char* folder : {"data/", ""}) {
        std::string lines;
        for (int i = 0; i < count; ++i)
            lines += folder + std::to_string(i) + "/img.jpg " + std::to_string(i % 7) + "\n";
        write_file(list, lines);
        const ImageList found = listed({archive}, list);
        ASSERT_EQ(found.images.size(), size_t(count));
        for (const ListedImage& image : found.images)
            EXPECT_EQ(image.label, std::to_string(std::stoi(image.member.substr(5)) % 7)) << image.member;
    }
}

TEST_F(ImageLabels, LinesAreMatchedByTheirEndsInTimeThatGrowsWithTheirNumber) {
    const std::string list = dir_.path("list.txt");
    const auto seconds = [&](const std::string& before, int count) {
        const std::string archive = archive_of("f'data/{i}/train/img.jpg'", count);
        std::string lines;
        for (int i = 0; i < count; ++i) lines += before + std::to_string(i) + "/train/img.jpg 0\n";
        write_file(list, lines);
        return seconds_of([&] { EXPECT_EQ(listed({archive}, list).images.size(), size_t(count)); });
    };
    for (const char* before : {"", "/mnt/data/"})
        EXPECT_LT(seconds(before, many), most_longer * seconds(before, few)) << "'" << before << "'";
}

TEST_F(ImageLabels, CompressedArchivesInAnArchiveTakeTimeThatGrowsWithTheirNumber) {
    const auto seconds = [&](int count) {
        const std::string archive = archive_of("f'{i}.tar.gz' if i else 'n01/x.jpg'", count);
        return seconds_of([&] {
            const ImageList list = listed({archive});
            EXPECT_EQ(list.images.size(), 1u);
            EXPECT_EQ(list.count(Skipped::archive).count, count - 1);
        });
    };
    EXPECT_LT(seconds(many), most_longer * seconds(few));
}

TEST_F(ImageLabels, ALineOfAnyLengthIsRefused) {
    const std::string list = dir_.path("list.txt");
    write_file(list, "n01/x.jpg 0\n" + std::string(70'000, '/') + "x.jpg 0\n");
    EXPECT_EQ("", problem({tar("n01")}, {"list.txt:2", "longer than 64 KiB"}, list));
}

// Sorted by class and name, as if "7" and "07" were written alike.
TEST_F(ImageLabels, NumbersAreSortedByTheirValue) {
    std::string lines;
    std::vector<std::string> wanted;
    for (int i = 10; i < 40; ++i) {
        const std::string name = std::to_string(i) + ".jpg";
        write_file(root_ + "/" + name, "");
        const char* labels[] = {"7", "07", "007"};
        lines = name + " " + labels[i % 3] + "\n" + lines;
        wanted.push_back(std::string(labels[i % 3]) + " " + name + ": ");
    }
    const std::string path = root_ + "/list.txt";
    write_file(path, "n01/x.jpg 12\n" + lines);
    wanted.push_back("12 x.jpg: x");
    EXPECT_EQ(contents(listed({path})), wanted);
}

TEST_F(ImageLabels, NumbersBesideNamesAreNames) {
    const std::string path = root_ + "/list.txt";
    write_file(path, "n02/a.png 10\nn10/z.jpeg 9\n");
    const std::string archive = tar("n01");
    for (const std::vector<std::string>& from : {std::vector{path, archive}, {archive, path}}) {
        const ImageList list = listed(from);
        EXPECT_FALSE(list.numbered);
        EXPECT_EQ(contents(list),
                  (std::vector<std::string>{"10 a.png: first", "9 z.jpeg: zzz", "n01 x.jpg: x", "n01 y.JPG: "}));
    }
}

// Folders 0, 1, 10, 2: class 2 is the last one, and a list's label 2 means it.
TEST_F(ImageLabels, NumberedTestLabelsAreFoldersOfThatName) {
    const std::string numbers = dir_.path("numbers"), list = numbers + "/test.txt";
    for (const char* label : {"0", "1", "2", "10"}) write_file(numbers + "/" + label + "/x.jpg", label);
    ImageList train = listed({numbers});
    const ClassTable classes = name_classes(train, "");
    ASSERT_EQ(classes.ids, (std::vector<std::string>{"0", "1", "10", "2"}));
    const auto indices = [&](const std::string& lines, const ClassTable& of) {
        write_file(list, lines);
        ImageList test = listed({list});
        find_classes(test, of);
        std::vector<int32_t> all;
        for (const ListedImage& image : test.images) all.push_back(image.class_index);
        return all;
    };
    EXPECT_EQ(indices("2/x.jpg 2\n10/x.jpg 10\n", classes), (std::vector<int32_t>{3, 2}));
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"'3'", "x.jpg", "the training has none"},
                                   [&] { indices("2/x.jpg 2\n10/x.jpg 3\n", classes); }));
    ImageList named = listed({root_});
    EXPECT_EQ(indices("2/x.jpg 2\n10/x.jpg 1\n", name_classes(named, "")), (std::vector<int32_t>{1, 2}));

    // labels of the training are indices of the lines, so other numbers as ids would be ambiguous
    write_file(list, "1/x.jpg 1\n2/x.jpg 2\n");
    ImageList numbered = listed({list});
    const auto named_by = [&](const std::string& lines) {
        write_file(dir_.path("classes.txt"), lines);
        return name_classes(numbered, dir_.path("classes.txt"));
    };
    for (const char* lines :
         {"0 tench\n1 goldfish\n2 shark\n", "n07 tench\nn05 goldfish\n2 shark\n", "a 0\nb 1\nc 2\n"}) {
        const ClassTable by_number = named_by(lines);
        ASSERT_EQ(numbered.images[0].class_index, 1);
        EXPECT_EQ(indices("1/x.jpg 1\n2/x.jpg 2\n", by_number), (std::vector<int32_t>{1, 2}));
    }
    for (const char* lines :
         {"1 tench\n2 goldfish\n3 shark\n", "1 tench\n0 goldfish\nother shark\n", "a 1\nb 0\nc 2\n"})
        EXPECT_EQ("", problem_of_error(Exit::bad_input, {"classes.txt", "line 1, which is class 0, says 1", "0, 1, 2"},
                                       [&] { named_by(lines); }));
}

// ILSVRC's own numbers do not count the sorted ids.
TEST_F(ImageLabels, NumbersAreRefusedIfTheFileOfNamesHasAnotherOrder) {
    const std::string folders = dir_.path("folders"), list = folders + "/test.txt", file = dir_.path("names.txt");
    for (const char* label : {"n01", "n02"}) write_file(folders + "/" + label + "/x.jpg", label);
    write_file(list, "n01/x.jpg 0\nn02/x.jpg 1\n");
    ImageList train = listed({folders}), test = listed({list});
    write_file(file, "n01 tench\nn015 not used\nn02 shark\n");
    find_classes(test, name_classes(train, file));
    EXPECT_EQ(test.images[1].class_index, 1);
    write_file(file, "n02 shark\nn01 tench\n");
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"test labels are numbers", "another order", "by ids"},
                                   [&] { find_classes(test, name_classes(train, file)); }));
    write_file(list, "n01/x.jpg n01\nn02/x.jpg n02\n");
    test = listed({list});
    find_classes(test, name_classes(train, file));
    EXPECT_EQ(test.images[1].class_index, 1) << "ids are clear in any order";
}

// Oxford's flowers: folders 01 to 10, and labels from 1 in a list.
TEST_F(ImageLabels, NumbersMeanFoldersHoweverTheyAreWritten) {
    const std::string flowers = dir_.path("flowers"), list = flowers + "/test.txt";
    for (int i = 1; i <= 10; ++i) write_file(flowers + formatted("/%02d/x.jpg", i), "");
    ImageList train = listed({flowers});
    const ClassTable classes = name_classes(train, "");
    write_file(list, "01/x.jpg 1\n09/x.jpg 9\n");
    ImageList test = listed({list});
    find_classes(test, classes);
    EXPECT_EQ(test.images[0].class_index, 0);
    EXPECT_EQ(test.images[1].class_index, 8);
}

// ImageNet has two classes named crane.
TEST_F(ImageLabels, ANameOfTwoClassesIsRefused) {
    const std::string file = dir_.path("classes.txt"), list = root_ + "/test.txt";
    write_file(file, "n01 crane\nn02 tench\nn10 crane\n");
    ImageList train = listed({root_});
    const ClassTable classes = name_classes(train, file);
    const auto index_of = [&](const std::string& label) {
        write_file(list, "n01/x.jpg " + label + "\n");
        ImageList test = listed({list});
        find_classes(test, classes);
        return test.images[0].class_index;
    };
    EXPECT_EQ(index_of("tench"), 1);
    EXPECT_EQ(index_of("n10"), 2);
    EXPECT_EQ("", problem_of_error(Exit::bad_input, {"'crane'", "several classes", "ids"}, [&] { index_of("crane"); }));
}

TEST_F(ImageLabels, ClassesAreNamedByAFile) {
    ImageList list = listed({root_});
    const std::string file = dir_.path("classes.txt");
    write_file(file, "n10 great grey owl, Strix nebulosa\nn01 tench\nn02\nn99 not there\n");
    const ClassTable table = name_classes(list, file);
    EXPECT_EQ(table.ids, (std::vector<std::string>{"n01", "n02", "n10"}));
    EXPECT_EQ(table.names, (std::vector<std::string>{"tench", "n02", "great grey owl, Strix nebulosa"}));
    EXPECT_EQ(list.images[5].class_index, 2);
    const auto refused = [&](const std::string& text, const std::vector<std::string>& words) {
        write_file(file, text);
        return problem_of_error(Exit::bad_input, words, [&] { name_classes(list, file); });
    };
    EXPECT_EQ("", refused("n01 a\nn10 b\n", {"classes.txt", "'n02'", "n02/a.png"}));
    EXPECT_EQ("", refused("n01 a\nn01 b\n", {"classes.txt", "n01 twice"}));
    EXPECT_EQ("", refused("", {"classes.txt", "is empty"}));
}

}  // namespace
}  // namespace convoy::test
