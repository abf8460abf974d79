// Printed words compared with what bash reads from them.
#include "base/shell_word.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace {

TEST(ShellWord, IsReadAgainByAShell) {
    std::string all;
    for (int byte = 1; byte < 256; ++byte) all += char(byte);
    for (const std::string& text :
         {std::string(), std::string("a b"), std::string("it's"), std::string("$HOME"), std::string("`id`"),
          std::string("*"), std::string("~/x"), std::string("-n"), std::string("a\\b"), std::string("\"q\""),
          std::string("new\nline"), std::string("\x1b[31m"), std::string("é ü"), std::string("\xff\xfe"),
          std::string("a\x01"
                      "b"),
          std::string("#x"), std::string("a!b"), std::string("{1,2}"), all}) {
        const std::string word = shell_word(text);
        EXPECT_EQ(printable(word), word) << "it is printed as it is";
        EXPECT_EQ(run("printf '<%s>' " + word).out, "<" + text + ">") << word;
    }
}

TEST(ShellWord, ThatIsPlainStaysAsItIs) {
    for (const std::string text :
         {"output/run-1", "lr=0.1,0.2", "build/convoy", "/data/CIFAR_10", "n@host:8%+", "größe"})
        EXPECT_EQ(shell_word(text), text);
}

// sh does not support $'…'.
TEST(ShellWord, IsReadByEveryShellIfATerminalShowsIt) {
    const std::string text = "it's a $(run) \"é\" \\ *";
    EXPECT_EQ(run("sh -c " + shell_word("printf %s " + shell_word(text))).out, text);
}

}  // namespace
}  // namespace convoy::test
