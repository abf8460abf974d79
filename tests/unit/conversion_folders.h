// A conversion of one image, for tests of its working folder.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "data/conversion_folder.h"
#include "tests/support/images.h"
#include "tests/support/support.h"

namespace convoy::test {

class ConversionFolders : public testing::Test {
protected:
    void SetUp() override {
        write_file(dir_.path("in/x.jpg"), jpeg_of(pattern(20, 30, 1)));
        mark_ = folder_.take();
        EXPECT_EQ(folder_.prepare("this"), ConversionFolder::Before::nothing);
    }
    ShardRecord made() {
        AssignedShard shard{"train", 0, 1};
        shard.images.push_back({"", "x.jpg", 0, -1, 0, 0});
        Source source;
        source.class_names = source.files = source.sha256 = {"x"};
        return convert_shard(shard, {dir_.path("in")}, {}, source, [](hid_t) {}, folder_.shard(shard.name()), [] {});
    }

    TempDir dir_;
    ConversionFolder folder_{dir_.path("set")};
    std::string mark_;
    const std::string records_ = dir_.path("set.partial/records/");
    const PixelStatistics statistics_{{0, 0, 0}, {1, 1, 1}};
};

}  // namespace convoy::test
