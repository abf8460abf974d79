#include "base/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <sstream>
#include <string_view>

#include "base/descriptor.h"
#include "base/file_error.h"
#include "base/hole.h"

namespace convoy {
namespace {

// The process at the other end of a pipe may open it later, and may compute before it writes.
constexpr int ms_for_a_writer = 1000, most_silent_ms = 10'000;

void check_regular(const struct stat& status, const std::string& path, const std::string& advice) {
    if (!S_ISREG(status.st_mode)) fail(Exit::bad_input, path + ": is not a regular file; " + advice);
}

/// Waits until there is something to read. Returns false if nothing comes in that time.
bool waits_for(int fd, int milliseconds) {
    pollfd event{fd, POLLIN, 0};
    return ::poll(&event, 1, milliseconds) != 0;
}

/// Reads as read(2) does, and waits for a pipe, but not for ever. Returns 0 at the end.
size_t read_part(int fd, std::span<char> to, const std::string& path, const std::string& advice) {
    for (;;) {
        const ssize_t got = ::read(fd, to.data(), to.size());
        if (got >= 0) return size_t(got);
        if (errno != EAGAIN && errno != EINTR) cannot_read(path, errno, advice);
        if (errno == EAGAIN && !waits_for(fd, most_silent_ms))
            fail(Exit::bad_input,
                 path + ": delivers nothing for " + std::to_string(most_silent_ms / 1000) + " seconds; " + advice);
    }
}

}  // namespace

uint64_t size_of_input(const std::string& path, const std::string& advice) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) cannot_read(path, errno, advice);
    check_regular(status, path, advice);
    return uint64_t(status.st_size);
}

std::string plain_text(std::string text, const std::string& where, const std::string& advice) {
    constexpr std::string_view mark = "\xEF\xBB\xBF";
    // an ASCII character in UTF-16 has exactly one zero byte
    const auto one_zero = [&](size_t at) { return text.size() < at + 2 || (text[at] == 0) != (text[at + 1] == 0); };
    const bool wide = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") ||
                      (text.size() >= 2 && one_zero(0) && one_zero(2));
    if (wide) fail(Exit::bad_input, where + ": is UTF-16 or UTF-32 text; save it as UTF-8 (" + advice + ")");
    if (text.find('\n') == std::string::npos) std::replace(text.begin(), text.end(), '\r', '\n');
    std::string plain;
    plain.reserve(text.size());
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        std::string_view line(&text[begin], end - begin);
        while (line.starts_with(mark)) line.remove_prefix(mark.size());
        if (line.ends_with('\r')) line.remove_suffix(1);
        plain += line;
        if (end < text.size()) plain += '\n';
        begin = end + 1;
    }
    return plain;
}

std::string text_of_input(const std::string& path, size_t most, const std::string& advice, Pipes pipes) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status{};
    if (!file.valid() || ::fstat(file.fd(), &status) != 0) cannot_read(path, errno, advice);
    if (pipes == Pipes::refused) check_regular(status, path, advice);
    if (S_ISREG(status.st_mode)) check_is_no_hole(file.fd(), status.st_size, path);
    const bool is_pipe = S_ISFIFO(status.st_mode);
    // The other end of a pipe could deliver a byte now and then, for ever.
    if (is_pipe && status.st_uid != ::geteuid() && status.st_uid != 0)
        fail(Exit::bad_input, path + ": is a pipe of another user (uid " + std::to_string(status.st_uid) +
                                  "), which may never end; " + advice);
    if (is_pipe) waits_for(file.fd(), ms_for_a_writer);
    std::string text;
    std::array<char, 1 << 16> part;
    for (size_t got = 1; got > 0 && text.size() <= most; text.append(part.data(), got))
        got = read_part(file.fd(), part, path, advice);
    if (is_pipe && text.empty()) fail(Exit::bad_input, path + ": no process writes into this pipe; " + advice);
    if (text.size() > most)
        fail(Exit::bad_input, path + ": holds more than " + std::to_string(most) + " bytes; " + advice);
    return plain_text(std::move(text), path, advice);
}

std::vector<std::string> lines_of_input(const std::string& path, size_t most, const std::string& advice) {
    std::istringstream text(text_of_input(path, most, advice));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) {
        line.erase(line.find_last_not_of(" \t\r") + 1);
        if (line.find('\0') != std::string::npos)
            fail(Exit::bad_input, path + ":" + std::to_string(lines.size() + 1) + ": holds a zero byte; " + advice);
        lines.push_back(std::move(line));
    }
    return lines;
}

std::string config_of_input(const std::string& path, const std::string& kind, const std::string& advice, Pipes pipes) {
    std::string text = text_of_input(path, 1 << 20, advice, pipes);
    const auto unprintable = [](unsigned char c) { return c < ' ' && c != '\n' && c != '\t' && c != '\r'; };
    if (std::any_of(text.begin(), text.end(), unprintable))
        fail(Exit::bad_input, path + ": is not a " + kind + "; " + advice);
    return text;
}

}  // namespace convoy
