// Tells the places of planted mistakes which test runs. Copies of tests/main.cpp include this file.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "tests/mistakes/mistake.h"

namespace convoy::mistakes {

class NameOfTest : public testing::EmptyTestEventListener {
    void OnTestStart(const testing::TestInfo& test) override {
        ++tests_begun;
        ::setenv("CONVOY_MISTAKES_TEST", (std::string(test.test_suite_name()) + "." + test.name()).c_str(), 1);
    }
};

}  // namespace convoy::mistakes
