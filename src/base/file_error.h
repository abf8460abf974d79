// Why a file could not be opened, read or written, and what to do about it, for each errno. None of
// these reasons says anything about the bytes of the file: they may be sound.
#pragma once
#include <string>

#include "base/error.h"

namespace convoy {

/// A file that could not be opened or read. Callers that skip damaged files must not skip this one.
struct Inaccessible : Error {
    explicit Inaccessible(const std::string& message) : Error(Exit::bad_input, message) {}
};

/// "REASON; ADVICE" for the errno `code`. `otherwise` is the advice where `code` needs none of its
/// own, as for a file that does not exist. Where permission is denied, the reason also says whose
/// `path` is, or the folder on the way to it that this user may not enter.
std::string reason_and_advice(int code, const std::string& otherwise, const std::string& path = "");

/// Throws Inaccessible: "PATH: cannot be read: REASON; ADVICE", as reason_and_advice.
[[noreturn]] void cannot_read(const std::string& path, int code, const std::string& otherwise);

}  // namespace convoy
