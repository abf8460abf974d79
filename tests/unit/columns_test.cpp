// .ci/columns.py --fill, which make format runs: lines get shorter, and no word is lost.
#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

class Columns : public testing::Test {
protected:
    /// Returns the filled text; the file name selects the kind of text.
    std::string filled(const std::string& name, const std::string& text) {
        write_file(dir_.path(name), text);
        last_ = run("${PYTHON:-/usr/bin/python3} -B .ci/columns.py --fill " + dir_.path(name));
        return read_file(dir_.path(name));
    }
    TempDir dir_;
    Finished last_;
};

TEST_F(Columns, RulersLoseDashesAndNoWords) {
    const std::string words(60, 'w'), more(80, 'm');
    EXPECT_EQ(filled("a.mk", "# ---- " + words + " " + std::string(60, '-') + "\n"),
              "# ---- " + words + " " + std::string(100 - 8 - words.size(), '-') + "\n");
    EXPECT_EQ(filled("a.cpp", "    // ---- " + words + " " + std::string(60, '-') + "\n"),
              "    // ---- " + words + " " + std::string(100 - 13 - words.size(), '-') + "\n");
    const std::string long_words = "# ---- " + words + " " + more;
    EXPECT_EQ(filled("a.mk", long_words + " " + std::string(30, '-') + "\n"), long_words + " ----\n");
}

TEST_F(Columns, CommentsAndParagraphsKeepTheirWords) {
    std::string sentence;
    for (int i = 0; i < 40; ++i) sentence += (i > 0 ? " word" : "word") + std::to_string(i);
    for (const auto& [name, before] : {std::pair("a.md", ""), {"a.sh", "# "}, {"a.h", "/// "}}) {
        const std::string text = filled(name, before + sentence + "\n");
        EXPECT_EQ(last_.code, 0) << last_.err;
        std::istringstream lines(text);
        std::string words;
        for (std::string line; std::getline(lines, line);) {
            EXPECT_LE(line.size(), 100u);
            words += (words.empty() ? "" : " ") + line.substr(std::string(before).size());
        }
        EXPECT_EQ(words, sentence) << name;
    }
}

}  // namespace
}  // namespace convoy::test
