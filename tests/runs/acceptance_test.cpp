// The standard tests that Convoy replaces, in their short form; `make acceptance` runs all of them.
#include <gtest/gtest.h>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

TEST(Acceptance, ShortFormIsAsExpected) {
    const Finished f = run("${PYTHON:-python3} tests/acceptance/acceptance.py --short --convoy " + sibling("convoy"));
    EXPECT_EQ("", failure(f));
    EXPECT_NE(f.out.find(" 0 failed"), std::string::npos) << f.out;
}

}  // namespace
}  // namespace convoy::test
