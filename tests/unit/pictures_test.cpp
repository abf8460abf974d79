// Shards as shown by other programs: h5dump and HDF5's own image functions find pictures with the
// pixels of the images.
#include <gtest/gtest.h>
#include <hdf5_hl.h>

#include "data/shard.h"
#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

constexpr int height = 6, width = 5;

class Pictures : public testing::Test {
protected:
    /// Makes a shard of `images` images.
    void make(int images, int channels) {
        make_data(dir_.path("data"), images, 1, "6x5x" + std::to_string(channels), 1);
        pixels_.resize(size_t(images * height * width * channels));
        std::vector<int32_t> labels(size_t(images), 0);
        SplitReader(dir_.path("data"), "train").read(0, images, pixels_.data(), labels.data());
    }
    uint8_t pixel(int image, int y, int x, int channel, int channels) const {
        return pixels_.at(size_t(((image * height + y) * width + x) * channels + channel));
    }
    /// Returns the attributes of /pictures as h5dump prints them, one "NAME: value" per line.
    std::string attributes() const {
        const Finished f =
            run("h5dump -d /pictures -A " + shard_ +
                " | awk '/ATTRIBUTE/ {gsub(/\"/, \"\", $2); name = $2} /STRPAD/ {pad = $2} /CSET/ {set = $2} "
                "/\\(0\\): / {print name \": \" $2 \" \" pad set}'");
        EXPECT_EQ(f.code, 0) << f.err;
        return f.out;
    }

    TempDir dir_;
    const std::string shard_ = dir_.path("data/train-00000-of-00001.h5");
    std::vector<uint8_t> pixels_;
};

/// Returns the line that h5dump prints for an attribute: ASCII, zero-terminated.
std::string line(const std::string& name, const std::string& value) {
    return name + ": \"" + value + "\" H5T_STR_NULLTERM;H5T_CSET_ASCII;\n";
}

TEST_F(Pictures, OfColourAreOneSheet) {
    struct Sheet {
        int images, rows, columns;
    };
    for (const Sheet& s : {Sheet{1, 1, 1}, {7, 1, 7}, {23, 3, 8}, {130, 10, 10}}) {
        make(s.images, 3);
        EXPECT_EQ(attributes(), line("CLASS", "IMAGE") + line("IMAGE_SUBCLASS", "IMAGE_TRUECOLOR") +
                                    line("IMAGE_VERSION", "1.2") + line("INTERLACE_MODE", "INTERLACE_PIXEL"));
        const h5::Handle file = h5::open(shard_);
        EXPECT_EQ(H5IMis_image(file, "/pictures"), 1);
        hsize_t w = 0, h = 0, planes = 0;
        hssize_t palettes = -1;
        char interlace[32] = "";
        ASSERT_GE(H5IMget_image_info(file, "/pictures", &w, &h, &planes, interlace, &palettes), 0);
        EXPECT_EQ(std::string(interlace), "INTERLACE_PIXEL");
        ASSERT_EQ(std::make_tuple(int(h), int(w), int(planes)), std::make_tuple(s.rows * height, s.columns * width, 3));
        std::vector<uint8_t> sheet(w * h * planes);
        ASSERT_GE(H5IMread_image(file, "/pictures", sheet.data()), 0);
        for (int y = 0; y < int(h); ++y)
            for (int x = 0; x < int(w); ++x)
                for (int c = 0; c < 3; ++c) {
                    const int image = x / width * s.rows + y / height;  // images are ordered down the columns
                    const uint8_t want = image < s.images ? pixel(image, y % height, x % width, c, 3) : 0;
                    ASSERT_EQ(sheet.at((size_t(y) * w + size_t(x)) * 3 + size_t(c)), want)
                        << s.images << ": " << y << " " << x;
                }
        run("rm -r " + dir_.path("data"));
    }
}

TEST_F(Pictures, OfGreyAreAPageEach) {
    make(12, 1);
    EXPECT_EQ(attributes(),
              line("CLASS", "IMAGE") + line("IMAGE_SUBCLASS", "IMAGE_GRAYSCALE") + line("IMAGE_VERSION", "1.2"));
    const h5::Handle file = h5::open(shard_);
    EXPECT_EQ(H5IMis_image(file, "/pictures"), 1);
    std::vector<hsize_t> dims(3);
    ASSERT_GE(H5LTget_dataset_info(file, "/pictures", dims.data(), nullptr, nullptr), 0);
    EXPECT_EQ(dims, (std::vector<hsize_t>{12, height, width}));
    std::vector<uint8_t> pages(pixels_.size());
    ASSERT_GE(H5LTread_dataset(file, "/pictures", H5T_NATIVE_UINT8, pages.data()), 0);
    EXPECT_EQ(pages, pixels_);
}

// HDF5 writes the time into objects that it creates, unless told not to. A second must pass so that
// the test would notice.
TEST_F(Pictures, AreTheSameBytesEveryTime) {
    make(23, 3);
    const std::string once = read_file(shard_);
    run("sleep 2; rm -r " + dir_.path("data"));
    make(23, 3);
    EXPECT_TRUE(read_file(shard_) == once);
}

TEST_F(Pictures, CostNoPixels) {
    make(100, 3);
    const auto bytes = [&](const char* set) {
        const h5::Handle file = h5::open(shard_), opened(H5Dopen2(file, set, H5P_DEFAULT));
        return H5Dget_storage_size(opened);
    };
    EXPECT_GE(bytes("/images"), pixels_.size());
    EXPECT_EQ(bytes("/pictures"), 0u);
}

TEST_F(Pictures, AreLeftOutWhereTheSpecificationHasNoPlace) {
    make(4, 2);
    EXPECT_FALSE(h5::has(h5::open(shard_), "/pictures"));
}

}  // namespace
}  // namespace convoy::test
