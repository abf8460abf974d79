// Selection of a rank's GPU, and refusals. No GPU is needed.
#include <gtest/gtest.h>

#include "backend/cuda/device.h"

namespace convoy::test {
namespace {

using namespace cuda;

TEST(CudaDeviceChoice, RanksTakeDevicesInOrder) {
    for (int r = 0; r < 4; ++r) EXPECT_EQ(device_of_rank(r, 4, 4, {}, false), r) << "each rank sees all";
    for (int r = 0; r < 4; ++r) EXPECT_EQ(device_of_rank(r, 4, 1, {}, false), 0) << "each rank sees one";
    EXPECT_EQ(device_of_rank(0, 2, 4, {3, 1}, false), 3);
    EXPECT_EQ(device_of_rank(1, 2, 4, {3, 1}, false), 1);
    EXPECT_EQ(device_of_rank(5, 6, 2, {}, true), 1);
    EXPECT_EQ(device_of_rank(2, 3, 4, {3, 1}, true), 3);
}

TEST(CudaDeviceChoice, WhatCannotBeIsAnError) {
    EXPECT_THROW(device_of_rank(2, 3, 2, {}, false), Error) << "more ranks than devices";
    EXPECT_THROW(device_of_rank(2, 3, 4, {0, 1}, false), Error) << "more ranks than --devices";
    EXPECT_THROW(device_of_rank(0, 1, 2, {2}, false), Error) << "no such device";
    try {
        device_of_rank(0, 1, 2, {5}, false);
    } catch (const Error& e) {
        EXPECT_EQ(e.code, Exit::usage);
        EXPECT_NE(std::string(e.what()).find("device 5"), std::string::npos) << e.what();
    }
}

TEST(CudaDeviceChoice, TwoRanksOnOneAreFoundByUuid) {
    EXPECT_EQ(shared_device({"a 1", "a 2", "b 1"}), "") << "another host's device is another";
    const std::string text = shared_device({"a 1", "a 2", "a 1"});
    for (const char* word : {"ranks 0 and 2", "on a", "--share-device"})
        EXPECT_NE(text.find(word), std::string::npos) << text;
}

}  // namespace
}  // namespace convoy::test
