// Shared by tests of options that are refused.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace convoy::test {

/// Returns the message of the Exit::usage error that `call` throws; empty if it throws none.
std::string message_of(auto call) {
    try {
        call();
    } catch (const Error& e) {
        EXPECT_EQ(e.code, Exit::usage);
        return e.what();
    }
    return "";
}

}  // namespace convoy::test
