// Switches the mistakes that run.py plants in copies of the sources. The sources themselves never
// include this. $CONVOY_MISTAKE is the number of the mistake to make. $CONVOY_MISTAKES_REACHED
// names a file that gets a line "TEST NUMBER" when a test first reaches a mistake's place.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#pragma GCC diagnostic ignored "-Wextra"

namespace convoy::mistakes {

constexpr int most = 1000;
inline const int chosen = std::getenv("CONVOY_MISTAKE") ? std::atoi(std::getenv("CONVOY_MISTAKE")) : 0;
inline const char* const reached_file = std::getenv("CONVOY_MISTAKES_REACHED");
/// Number of tests that this process has begun. Its children read $CONVOY_MISTAKES_TEST instead.
inline std::atomic<int> tests_begun = 1;
inline std::array<std::atomic<int>, most> reached_in{};  ///< the test that last reached each place

inline void note_reached(int number) {
    const int test = tests_begun;
    if (reached_in[number].exchange(test) == test) return;
    const char* name = std::getenv("CONVOY_MISTAKES_TEST");
    char line[300];
    const int length = std::snprintf(line, sizeof line, "%s %d\n", name ? name : "-", number);
    const int file = ::open(reached_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const bool noted = file >= 0 && ::write(file, line, size_t(length)) == length;
    if (!noted) reached_in[number] = 0;  // tests limit the size of files, and their number
    if (file >= 0) ::close(file);
}

/// Returns true if the mistake of this number must be made.
inline bool made(int number) {
    if (reached_file) note_reached(number);
    return number == chosen;
}

}  // namespace convoy::mistakes
