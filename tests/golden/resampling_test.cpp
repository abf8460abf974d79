// Resizing with antialias against torchvision's, as tests/golden/make_resampling.py wrote it: the
// host's Resampler for windows, and each device for the crops of an evaluation.
#include <gtest/gtest.h>

#include "base/resample.h"
#include "tests/golden/golden_file.h"
#include "tests/ops/op_harness.h"

namespace convoy::test {
namespace {

const std::string path = "tests/golden/resampling.h5";

std::vector<uint8_t> image(int64_t height, int64_t width) {
    std::vector<uint8_t> pixels(size_t(height * width * 3));
    for (int64_t i = 0; i < int64_t(pixels.size()); ++i)
        pixels[i] = uint8_t((i * i * 40503 + i * 30011 + 12345) / 64 % 256);
    return pixels;
}

/// One data set with its attributes.
struct Case {
    h5::Handle set;
    Doubles values;
    double bound = 0;  // grey levels
    std::vector<hsize_t> dims;

    Case(const h5::Handle& file, const std::string& name) : set(H5Dopen2(file, name.c_str(), H5P_DEFAULT)) {
        const h5::Handle space(H5Dget_space(set));
        dims.resize(size_t(H5Sget_simple_extent_ndims(space)));
        H5Sget_simple_extent_dims(space, dims.data(), nullptr);
        values.resize(dims.at(0) * dims.at(1) * dims.at(2));
        require(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0, "a golden file");
        // Weights are sums of float32 positions: as far as torchvision's float32, and 1e-6 of
        // white.
        read("f32_error", H5T_NATIVE_DOUBLE, &bound);
        bound = 4 * bound + 255e-6;
    }
    /// Reads an attribute. The data sets are compressed, which Convoy's own readers refuse.
    void read(const char* name, hid_t type, void* to) const {
        const h5::Handle attribute(H5Aopen(set, name, H5P_DEFAULT));
        require(H5Aread(attribute, type, to) >= 0, "a golden file's attribute");
    }
    int integer(const char* name) const {
        int value = 0;
        read(name, H5T_NATIVE_INT, &value);
        return value;
    }
    std::vector<int> integers(const char* name) const {
        int all[4];
        read(name, H5T_NATIVE_INT, all);
        return {all, all + 4};
    }
};

std::vector<Case> cases(const std::string& group) {
    const h5::Handle file = h5::open(path);
    std::vector<Case> all;
    for (int n = 0; H5Lexists(file, (group + "/" + std::to_string(n)).c_str(), H5P_DEFAULT) > 0; ++n)
        all.emplace_back(file, group + "/" + std::to_string(n));
    return all;
}

template <class Values> void compare(const Values& got, const Case& expected, const std::string& what) {
    ASSERT_EQ(got.size(), expected.values.size()) << what;
    for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], expected.values[i], expected.bound) << what << ", element " << i;
}

TEST(Resampling, WindowsAreTorchvisions) {
    const std::vector<Case> all = cases("windows");
    ASSERT_EQ(all.size(), 8u);
    Resampler resampler;
    for (const Case& c : all) {
        const std::vector<uint8_t> pixels = image(c.integer("height"), c.integer("width"));
        const std::vector<int> w = c.integers("window");
        const int rows = int(c.dims[0]), columns = int(c.dims[1]);
        Floats got(c.values.size());
        resampler.begin(pixels.data(), c.integer("width"), 3, {w[0], w[1], w[2], w[3], rows, columns, 0, 0, false},
                        columns);
        for (int i = 0; i < rows; ++i) resampler.row(i, got.data() + size_t(i * columns * 3));
        compare(got, c, "window of " + std::to_string(w[2]) + "x" + std::to_string(w[3]));
    }
}

class ResamplingOn : public testing::TestWithParam<std::string> {};

/// All images lie one after the other, and a device reads the one whose turn it is.
TEST_P(ResamplingOn, CentresAreTorchvisions) {
    const std::unique_ptr<Backend> backend = make_test_backend(GetParam());
    const std::vector<Case> all = cases("centres");
    ASSERT_EQ(all.size(), 6u);
    std::vector<uint8_t> pixels;
    std::vector<ImagePlace> places;
    for (const Case& c : all) {
        places.push_back({int64_t(pixels.size()), c.integer("height"), c.integer("width")});
        const std::vector<uint8_t> own = image(c.integer("height"), c.integer("width"));
        pixels.insert(pixels.end(), own.begin(), own.end());
    }
    const Buffer images = upload(*backend, pixels), device_places = upload(*backend, places),
                 labels = upload(*backend, std::vector<int32_t>(all.size())),
                 counters = upload(*backend, std::vector<Counters>(1)), y = backend->allocate(sizeof(int32_t));
    for (size_t n = 0; n < all.size(); ++n) {
        const int side = all[n].integer("side");
        const Buffer x = upload(*backend, Floats(all[n].values.size(), NAN));
        Gather g{};
        g.images = {images.get(), {int(all.size()), 53, 100, 3}, DType::u8};
        g.places = static_cast<const ImagePlace*>(device_places.get());
        g.labels = {labels.get(), {int(all.size()), 1, 1, 1}, DType::i32};
        g.counters = static_cast<const Counters*>(counters.get());
        g.x = {x.get(), {1, side, side, 3}, DType::f32};
        g.y = {y.get(), {1, 1, 1, 1}, DType::i32};
        g.first = int64_t(n);
        g.mean = {0, 0, 0};
        g.stddev = {1 / 255.0f, 1 / 255.0f, 1 / 255.0f};  // a normalised value is the pixel
        g.augment.crop = Crop::centre;
        g.augment.short_side = all[n].integer("short_side");
        Tape tape;
        backend->gather(g, tape);
        run_tape(*backend, std::move(tape));
        compare(download<float>(*backend, x.get(), all[n].values.size()), all[n], "centre " + std::to_string(n));
    }
}

INSTANTIATE_TEST_SUITE_P(All, ResamplingOn, testing::ValuesIn(test_devices()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace convoy::test
