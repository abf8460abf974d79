// Messages for files that could not be opened, read or written: the reason and advice for each
// errno. None of them means that the file is damaged.
#pragma once
#include <sys/types.h>

#include <string>

#include "base/error.h"

namespace convoy {

/// The error for a file that could not be opened or read. Callers that skip damaged files must not
/// skip such a file.
struct Inaccessible : Error {
    explicit Inaccessible(const std::string& message) : Error(Exit::bad_input, message) {}
    ~Inaccessible() override;  // defined once, in file_error.cpp
};

/// Returns "REASON; ADVICE" for the errno `code`. `otherwise` is the advice if this function has
/// none for `code` (as for ENOENT). If permission is denied, the reason also names an owner: of the
/// folder that this user may not enter, or of `path`.
std::string reason_and_advice(int code, const std::string& otherwise, const std::string& path = "");

/// Throws Inaccessible: "PATH: cannot be read: REASON; ADVICE", as reason_and_advice() words it.
[[noreturn]] void cannot_read(const std::string& path, int code, const std::string& otherwise);

/// Returns the name of a user, or "user 1234" if the system knows none.
std::string name_of_user(uid_t user);

}  // namespace convoy
