// Texts that are taken apart and put together.
#include "base/text.h"

#include <gtest/gtest.h>

#include "base/nearest_name.h"

namespace convoy::test {
namespace {

using Texts = std::vector<std::string>;

TEST(Text, IsTrimmedOfBlanksAndCarriageReturns) {
    EXPECT_EQ(trimmed(" \t a  b\t\r"), "a  b");
    EXPECT_EQ(trimmed("a"), "a");
    EXPECT_EQ(trimmed(" \t\r"), "");
    EXPECT_EQ(trimmed(""), "");
    EXPECT_EQ(without_comment(" a # b # c"), "a");
    EXPECT_EQ(without_comment("# a"), "");
}

TEST(Text, IsTakenApart) {
    EXPECT_EQ(words_of(" a\tb\n c "), (Texts{"a", "b", "c"}));
    EXPECT_EQ(words_of(" "), Texts());
    EXPECT_EQ(split("a, b,,c", ','), (Texts{"a", " b", "", "c"}));
    EXPECT_EQ(split("a,b,", ','), (Texts{"a", "b"})) << "no part follows the last separator";
    EXPECT_EQ(split(",", ','), (Texts{""}));
    EXPECT_EQ(split("", ','), Texts());
}

TEST(Text, IsPutTogether) {
    EXPECT_EQ(joined({"a", "b", "c"}, "; "), "a; b; c");
    EXPECT_EQ(joined({"", "b"}, ", "), ", b");
    EXPECT_EQ(joined({"a"}, ", "), "a");
    EXPECT_EQ(joined({}, ", "), "");
    EXPECT_EQ(list_of({"a", "b", "c"}), "a, b or c");
    EXPECT_EQ(list_of({"1", "4", "5"}, " and "), "1, 4 and 5");
    EXPECT_EQ(list_of({"a", "b"}), "a or b");
    EXPECT_EQ(list_of({"a"}), "a");
}

TEST(Text, KeysEndAtTheFirstEqualsSign) {
    const auto pair = [](const char* text) {
        const std::optional<KeyValue> found = key_and_value(text);
        return found ? found->key + "|" + found->value : "none";
    };
    EXPECT_EQ(pair("key = value"), "key|value");
    EXPECT_EQ(pair("key=a = b"), "key|a = b");
    EXPECT_EQ(pair("key ="), "key|");
    EXPECT_EQ(pair("= value"), "|value");
    EXPECT_EQ(pair("="), "|");
    EXPECT_EQ(pair("key value"), "none");
}

}  // namespace
}  // namespace convoy::test
