// Errors: one exception type carries the exit code, so that every failure ends in one line and one
// code. Bad input, options and files throw Error; a broken invariant of the program itself throws
// std::logic_error (require).
#pragma once
#include <source_location>
#include <stdexcept>
#include <string>

#include "base/text.h"

namespace convoy {

/// Exit codes of the executable; the README lists them for users.
/// A defect of the program itself (std::logic_error) ends with 1.
enum class Exit : int {
    done = 0,
    usage = 2,          ///< unknown option, impossible combination
    bad_input = 3,      ///< data set, model file or recipe that cannot be used
    not_finite = 4,     ///< the loss became NaN or infinite
    io = 5,             ///< unwritable output, disk full
    comm = 6,           ///< communication failed
    out_of_memory = 7,  ///< on the host or on the device
    not_accepted = 8,   ///< accept or train --audit found something wrong, or comm-test --at-least was not reached
    requeue = 85,       ///< checkpointed on request: submit the job again
};

/// The message for std::bad_alloc.
constexpr const char* out_of_host_memory =
    "out of memory on the host; use a smaller batch or data set, or fewer ranks per node";

/// A failure the user can act on. The message says what happened, where, and what to do, in one
/// line.
struct Error : std::runtime_error {
    Error(Exit exit_code, const std::string& message) : std::runtime_error(printable(message)), code(exit_code) {}
    Exit code;
    bool everywhere = false;  ///< every rank throws this same error: print once, finish in order
};

[[noreturn]] inline void fail(Exit code, const std::string& message) { throw Error(code, message); }

/// Throws an Error that every rank throws at the same point of the program. The job prints one
/// message and ends in order.
[[noreturn]] inline void fail_everywhere(Exit code, const std::string& message) {
    Error error(code, message);
    error.everywhere = true;
    throw error;
}

/// Checks an invariant of the program (never of its input); throws std::logic_error with the place.
inline void require(bool holds, const char* what, std::source_location at = std::source_location::current()) {
    if (!holds)
        throw std::logic_error(std::string(at.file_name()) + ":" + std::to_string(at.line()) +
                               ": internal error: " + what);
}

}  // namespace convoy
