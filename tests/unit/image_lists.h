// A folder of images whose content is text, for tests of image lists.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "data/image_list.h"
#include "data/input_bytes.h"
#include "tests/support/support.h"

namespace convoy::test {

/// Returns "LABEL NAME: CONTENT" of each image, in the list's order.
inline std::vector<std::string> contents(const ImageList& list) {
    std::vector<std::string> all;
    for (const ListedImage& image : list.images) {
        const FilePlace& source = list.sources[image.source];
        std::string content(size_t(image.bytes), '\0');
        const InputBytes file(image.offset < 0 ? source.opened + "/" + image.name : source);
        file.read(std::max<int64_t>(0, image.offset), image.bytes, content.data());
        all.push_back(image.label + " " + std::filesystem::path(image.name).filename().string() + ": " + content);
    }
    return all;
}

/// A folder of three classes with six "images", and some other files.
class ImageLists : public testing::Test {
protected:
    void SetUp() override {
        const std::pair<const char*, const char*> files[] = {{"n02/b.JPEG", "second"}, {"n02/a.png", "first"},
                                                             {"n01/x.jpg", "x"},       {"n01/y.JPG", ""},
                                                             {"n10/z.jpeg", "zzz"},    {"n10/w.Png", "w"}};
        for (const auto& [name, content] : files) write_file(root_ + "/" + name, content);
        write_file(root_ + "/n02/notes.txt", "no image");
        write_file(root_ + "/README", "no image");
    }
    const std::vector<std::string> wanted_ = {"n01 x.jpg: x",       "n01 y.JPG: ",  "n02 a.png: first",
                                              "n02 b.JPEG: second", "n10 w.Png: w", "n10 z.jpeg: zzz"};
    ImageList listed(const std::vector<std::string>& from, const std::string& list = "") const {
        return list_images({from, list, &working_, "unpacked"});
    }
    std::string problem(const std::vector<std::string>& from, const std::vector<std::string>& words,
                        const std::string& list = "") const {
        return problem_of_error(Exit::bad_input, words, [&] { listed(from, list); });
    }
    /// Runs tar in the folder. Returns the archive's path.
    std::string tar(const std::string& arguments, const std::string& name = "all.tar") const {
        EXPECT_EQ(run("cd " + root_ + " && tar -cf " + dir_.path(name) + " " + arguments).code, 0);
        return dir_.path(name);
    }

    TempDir dir_;
    const OwnFolder working_ = OwnFolder::make_or_take(dir_.path("working"), "");
    std::string root_ = dir_.path("root");
};

}  // namespace convoy::test
