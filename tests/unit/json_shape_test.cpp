// JSON of other people is looked at before it is parsed. Files with such lists took 70 times their
// size, and minutes.
#include "base/json_shape.h"

#include <gtest/gtest.h>

#include <string>

namespace convoy::test {
namespace {

std::string lists(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::string object(size_t names) {
    std::string text;
    for (size_t i = 0; i < names; ++i) text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
    return "{" + text + "}";
}

TEST(JsonShape, NestedListsAreCountedAndListsBesideEachOtherAreNot) {
    EXPECT_TRUE(has_modest_shape(lists(16)));
    EXPECT_FALSE(has_modest_shape(lists(17)));
    EXPECT_FALSE(has_modest_shape(std::string(17, '[')));
    EXPECT_FALSE(has_modest_shape("{\"a\":" + lists(16) + "}"));
    std::string many = "[";
    for (int i = 0; i < 1000; ++i) many += "[],{},";
    EXPECT_TRUE(has_modest_shape(many + "1]"));
    EXPECT_FALSE(has_modest_shape(many + lists(16) + "]"));
}

TEST(JsonShape, NamesOfOneObjectAreCounted) {
    EXPECT_TRUE(has_modest_shape(object(1000)));
    EXPECT_FALSE(has_modest_shape(object(1001)));
    EXPECT_TRUE(has_modest_shape("[" + object(1000) + "," + object(1000) + "]"));
    EXPECT_FALSE(has_modest_shape("[1," + object(1001) + "]"));
}

TEST(JsonShape, TextsAreLeftOut) {
    const std::string brackets(100, '['), colons(2000, ':');
    EXPECT_TRUE(has_modest_shape("{\"a" + brackets + colons + "\":\"" + brackets + colons + "\"}"));
    EXPECT_TRUE(has_modest_shape(R"(["\")" + brackets + R"(\\"])"));
    EXPECT_FALSE(has_modest_shape(R"(["\\",)" + brackets));
}

TEST(JsonShape, WhatIsNoJsonIsTheParsersToFind) {
    for (const char* text : {"", "]]]]", "{", "\"", "\"\\", "}{"}) EXPECT_TRUE(has_modest_shape(text)) << text;
}

}  // namespace
}  // namespace convoy::test
