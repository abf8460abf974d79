#include "data/hdf5_failure.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "base/file_error.h"
#include "base/memory.h"

namespace convoy::h5 {
namespace {

/// The innermost entry of HDF5's error stack, which is the first failure.
struct Failure {
    hid_t major = H5I_INVALID_HID, minor = H5I_INVALID_HID;  ///< HDF5's codes
    int system = 0;                                          ///< errno, if the system refused something; else 0
    bool locking = false;                                    ///< true: the system refused a lock
    std::string text;                                        ///< HDF5's message; may be empty
};

Failure innermost_error() {
    Failure failure;
    auto visit = [](unsigned depth, const H5E_error2_t* error, void* out) -> herr_t {
        auto& bottom = *static_cast<Failure*>(out);
        if (depth > 0) return 0;
        bottom.major = error->maj_num;
        bottom.minor = error->min_num;
        bottom.text = error->desc ? error->desc : "";
        return 0;
    };
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, visit, &failure);
    std::string& text = failure.text;
    // The text is "unable to open file: name = 'a.h5', errno = 24, error message = 'Too many open
    // files', flags = 0, …".
    if (const size_t at = text.rfind("errno = "); at != std::string::npos) {
        failure.system = std::atoi(text.c_str() + at + 8);
        failure.locking = text.starts_with("unable to lock");
    }
    if (const size_t at = text.rfind("error message = '"); at != std::string::npos) {
        text.erase(0, at + 17);
        text.erase(std::min(text.find('\''), text.size()));
    }
    std::replace(text.begin(), text.end(), '\n', ' ');
    return failure;
}

/// Returns true if bytes did not match their checksum. The reporting part of HDF5 differs by
/// version: for a chunk, Fletcher-32 itself in 1.10 and the filter pipeline in 1.14; for metadata,
/// the cache.
bool is_checksum_mismatch(const Failure& f) {
    const bool by_a_checker = f.major == H5E_STORAGE || f.major == H5E_PLINE || f.major == H5E_CACHE;
    return by_a_checker && f.minor == H5E_READERROR && f.system == 0;
}

/// Returns true if there is still as much memory as HDF5 allocates at once for an intact file.
bool has_memory_for(const std::string& path) {
    constexpr size_t structures = size_t(16) << 20;  // for HDF5's own structures, which are in no file
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(path, error);
    return !error && is_available(bytes + structures);
}

/// Returns ": cannot be VERB: REASON; ADVICE" if the system refused something, else "".
std::string refusal_of(const Failure& failure, const std::string& verb, const std::string& otherwise,
                       const std::string& path = "") {
    if (failure.system == 0) return "";
    if (failure.locking && failure.system != EAGAIN)
        return ": cannot be locked: " + failure.text +
               "; HDF5_USE_FILE_LOCKING asks for a lock that this file system refuses: set it to FALSE";
    return ": cannot be " + verb + ": " + reason_and_advice(failure.system, otherwise, path);
}

/// Throws Inaccessible if the system refused to read `what`, which is a file or a part of it.
void fail_if_refused(const Failure& failure, const std::string& what) {
    const std::string refusal = refusal_of(failure, "read", "check the path and the file system", what);
    if (!refusal.empty()) throw Inaccessible(what + refusal);
}

std::string words_of(const Failure& failure, const std::string& reading) {
    const std::string& reason = failure.text;
    const bool no_memory = reason.find("memory") != std::string::npos && reason.find("alloc") != std::string::npos;
    if (no_memory && (reading.empty() || !has_memory_for(reading))) throw std::bad_alloc();
    return reason.empty() ? "" : " (HDF5: " + reason + ")";
}

}  // namespace

std::string because(const std::string& reading) { return words_of(innermost_error(), reading); }

std::string path_of(hid_t object) {
    const ssize_t length = H5Fget_name(object, nullptr, 0);
    std::string path(length > 0 ? size_t(length) : 0, '\0');
    if (length > 0) H5Fget_name(object, path.data(), path.size() + 1);
    return path;
}

std::string name_of(hid_t object) {
    char name[256] = "";
    return H5Iget_name(object, name, sizeof name) > 0 ? name : "data set";
}

[[noreturn]] static void fail_as(const Failure& failure, const std::string& path, const std::string& what,
                                 const std::string& advice) {
    const std::string place = path + ": " + what;
    fail_if_refused(failure, place);
    if (is_checksum_mismatch(failure))
        fail(Exit::bad_input, place + " does not match its checksum: the file is damaged; " + advice);
    fail(Exit::bad_input, place + " cannot be read: the file is damaged" + words_of(failure, path) + "; " + advice);
}

void fail_to_read(const std::string& path, const std::string& what, const std::string& advice) {
    fail_as(innermost_error(), path, what, advice);
}

void fail_to_read_rows(hid_t dataset, const std::string& path) {
    const Failure failure = innermost_error();
    fail_as(failure, path, name_of(dataset), "make it again");
}

void fail_to_open(const std::string& path) {
    const Failure failure = innermost_error();
    fail_if_refused(failure, path);
    fail(Exit::bad_input, path + ": cannot be opened: it is damaged" + words_of(failure, path) + "; make it again");
}

void fail_to_create(const std::string& path) {
    const Failure failure = innermost_error();
    const std::string advice = "check the folder, its permissions and free space",
                      refusal = refusal_of(failure, "created", advice);
    fail(Exit::io, path + (refusal.empty() ? ": cannot be created" + words_of(failure, "") + "; " + advice : refusal));
}

bool exists_in(htri_t answer, hid_t object, const std::string& name) {
    if (answer < 0) {
        const Failure failure = innermost_error();
        fail_if_refused(failure, path_of(object) + ": " + name);
    }
    return answer > 0;
}

}  // namespace convoy::h5
