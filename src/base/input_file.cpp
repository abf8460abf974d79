#include "base/input_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include "base/error.h"

namespace convoy {

uint64_t size_of_input(const std::string& path, const std::string& advice) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) fail(Exit::bad_input, path + ": " + std::strerror(errno) + "; " + advice);
    if (!S_ISREG(status.st_mode)) fail(Exit::bad_input, path + ": is not a regular file; " + advice);
    return uint64_t(status.st_size);
}

std::string text_of_input(const std::string& path, size_t most, const std::string& advice) {
    std::ifstream in(path, std::ios::binary);
    std::string text;
    std::array<char, 1 << 16> part;
    while (text.size() <= most && in) {
        in.read(part.data(), part.size());
        text.append(part.data(), size_t(in.gcount()));
    }
    if (!in && !in.eof()) fail(Exit::bad_input, path + ": cannot be read; " + advice);
    if (text.size() > most)
        fail(Exit::bad_input, path + ": holds more than " + std::to_string(most) + " bytes; " + advice);
    return text;
}

std::string config_of_input(const std::string& path, const std::string& kind, const std::string& advice) {
    std::string text = text_of_input(path, 1 << 20, advice);
    const auto unprintable = [](unsigned char c) { return c < ' ' && c != '\n' && c != '\t' && c != '\r'; };
    if (std::any_of(text.begin(), text.end(), unprintable))
        fail(Exit::bad_input, path + ": is not a " + kind + "; " + advice);
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
    return text;
}

}  // namespace convoy
