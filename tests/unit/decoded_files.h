// Picture files that a Python script writes, and what becomes of them.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "data/image_file.h"
#include "tests/support/images.h"
#include "tests/support/support.h"

namespace convoy::test {

inline RgbImage decoded(const std::string& file) {
    RgbImage image;
    decode_image(bytes_of(file), image);
    return image;
}

/// Returns the problem with a file; empty if there is none.
inline std::string problem_of(const std::string& file) {
    try {
        decoded(file);
        return "";
    } catch (const BadImage& bad) {
        return bad.what();
    }
}

/// Returns the fault of a file; -1 if there is none.
inline int fault_of(const std::string& file) {
    try {
        decoded(file);
        return -1;
    } catch (const BadImage& bad) {
        return int(bad.fault);
    }
}

/// Replaces bytes of a file.
inline std::string with(std::string file, size_t at, const std::string& bytes) {
    return file.replace(at, bytes.size(), bytes);
}

inline std::string little(uint64_t number, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += char(number >> 8 * i);
    return text;
}

/// Reads a P6 picture that Pillow wrote.
inline RgbImage ppm(const std::string& file) {
    std::istringstream in(file);
    std::string magic;
    RgbImage image;
    int most = 0;
    in >> magic >> image.width >> image.height >> most;
    in.get();
    image.pixels.resize(size_t(image.height) * size_t(image.width) * 3);
    in.read(reinterpret_cast<char*>(image.pixels.data()), std::streamsize(image.pixels.size()));
    return image;
}

/// Files by name, "colour", with what Pillow reads from each, "colour.ppm".
class DecodedFiles : public testing::Test {
protected:
    /// Runs a script of tests/support with a folder for its files as last argument.
    static void make(const std::string& script) {
        if (run("${PYTHON:-/usr/bin/python3} -c 'import numpy, PIL'").code != 0) return;
        const TempDir dir;
        const Finished made = run("${PYTHON:-/usr/bin/python3} -B tests/support/" + script + " " + dir.path());
        ASSERT_EQ(made.code, 0) << made.err;
        for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
            files_[entry.path().filename()] = read_file(entry.path());
    }
    static void TearDownTestSuite() { files_.clear(); }
    void SetUp() override {
        if (files_.empty()) GTEST_SKIP() << "needs a Python with Pillow and numpy";
    }

    static void for_each_file(const std::function<void(const std::string& name, const std::string& content)>& use) {
        for (const auto& [name, content] : files_)
            if (!name.ends_with(".ppm")) use(name, content);
    }
    /// Compares all files with what Pillow reads.
    static void expect_pixels_of_pillow(int files) {
        int compared = 0;
        for_each_file([&](const std::string& name, const std::string& content) {
            const RgbImage image = decoded(content), wanted = ppm(files_.at(name + ".ppm"));
            EXPECT_EQ(std::pair(image.height, image.width), std::pair(wanted.height, wanted.width)) << name;
            EXPECT_TRUE(image.pixels == wanted.pixels) << name;
            ++compared;
        });
        EXPECT_EQ(compared, files);
    }
    static void expect_notes(const std::map<std::string, std::vector<ImageNote>>& wanted) {
        for (const auto& [name, notes] : wanted) {
            RgbImage expected;
            for (const ImageNote note : notes) expected.note(note);
            EXPECT_EQ(decoded(files_.at(name)).notes, expected.notes) << name;
        }
    }
    /// Expects that no beginning of a file is taken for a whole one.
    static void expect_refused_wherever_cut(const std::vector<std::string>& names) {
        for (const std::string& name : names) {
            const std::string& whole = files_.at(name);
            for (size_t length = 0; length < whole.size(); ++length)
                ASSERT_NE("", problem_of(whole.substr(0, length))) << name << " with " << length << " bytes";
        }
    }
    /// Flips bits of every file. Most flips give other pixels, which cannot be detected; detected
    /// damage is refused, and no library prints anything.
    static int refused_with_flipped_bits(int trials) {
        std::mt19937 random(11);
        int refused = 0;
        std::string thrown;
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        for_each_file([&](const std::string& name, const std::string& whole) {
            for (int trial = 0; trial < trials; ++trial) {
                std::string damaged = whole;
                damaged[random() % whole.size()] ^= char(1 << random() % 8);
                try {
                    refused += !problem_of(damaged).empty();
                } catch (const std::exception& other) {  // would leave the output captured
                    thrown += formatted("%s, flip %d: %s\n", name.c_str(), trial, other.what());
                }
            }
        });
        EXPECT_EQ("", thrown + testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr());
        return refused;
    }
    static inline std::map<std::string, std::string> files_;
};

}  // namespace convoy::test
