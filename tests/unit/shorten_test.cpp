// Texts from files are short in messages, whatever the file holds.
#include <gtest/gtest.h>

#include "base/shorten.h"
#include "tests/support/support.h"
#include "train/checkpoint.h"

namespace convoy::test {
namespace {

TEST(Shorten, CutsBetweenCharacters) {
    EXPECT_EQ(shortened("short"), "short");
    EXPECT_EQ(shortened(std::string(200, 'a')), std::string(200, 'a'));
    EXPECT_EQ(shortened(std::string(201, 'a')), std::string(197, 'a') + "…");
    EXPECT_EQ(shortened("aäö", 5), "aäö") << "five bytes";
    EXPECT_EQ(shortened("aäöü", 6), "aä…") << "the second byte of ö would be the sixth";
}

TEST(Shorten, MessagesOfLongIdentitiesAreShort) {
    const std::string text(1 << 20, 'x');
    try {
        check_identity("c.h5", {{"model", text}}, {{"model", "linear"}});
        FAIL() << "it is another model";
    } catch (const Error& error) {
        EXPECT_LT(std::string(error.what()).size(), 1000u);
        EXPECT_NE(std::string(error.what()).find("linear"), std::string::npos);
    }
}

}  // namespace
}  // namespace convoy::test
