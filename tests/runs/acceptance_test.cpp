// The standard tests that Convoy replaces, in their short form; `make acceptance` runs all of them.
#include <gtest/gtest.h>

#include "tests/support/cluster.h"

namespace convoy::test {
namespace {

TEST(Acceptance, ShortFormIsAsExpected) {
    const Finished f = run(with_limit(
        "${PYTHON:-/usr/bin/python3} -B tests/acceptance/acceptance.py --short --convoy " + sibling("convoy"), 1200));
    EXPECT_EQ("", failure(f));
    EXPECT_NE(f.out.find(" 0 failed"), std::string::npos) << f.out;
}

}  // namespace
}  // namespace convoy::test
