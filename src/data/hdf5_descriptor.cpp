// A file driver for HDF5: the functions by which HDF5 reads the bytes of a file.
#include "data/hdf5_descriptor.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "data/hdf5_failure.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

namespace convoy::h5 {
namespace {

struct OpenFile {
    H5FD_t known;  // first: HDF5 has a pointer to this part
    int fd;
    haddr_t bytes, used;  // bytes of the file; end of the part that HDF5 may read
};

OpenFile& file_of(H5FD_t* known) { return *reinterpret_cast<OpenFile*>(known); }
const OpenFile& file_of(const H5FD_t* known) { return *reinterpret_cast<const OpenFile*>(known); }

/// Reports errno in HDF5's own words, which data/hdf5_failure.cpp reads.
herr_t refused(const char* action, hid_t kind) {
    const int code = errno;
    H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_IO, kind,
             "unable to %s file: errno = %d, error message = '%s'", action, code, std::strerror(code));
    return -1;
}

H5FD_t* open_file(const char*, unsigned, hid_t access, haddr_t) {
    const auto* fd = static_cast<const int*>(H5Pget_driver_info(access));
    const int own = fd == nullptr ? -1 : ::fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    struct stat status{};
    if (own < 0 || ::fstat(own, &status) != 0) {
        refused("open", H5E_CANTOPENFILE);
        if (own >= 0) ::close(own);
        return nullptr;
    }
    auto* file = new (std::nothrow) OpenFile{{}, own, haddr_t(status.st_size), 0};
    if (file == nullptr) ::close(own);
    return file == nullptr ? nullptr : &file->known;
}

herr_t close_file(H5FD_t* known) {
    ::close(file_of(known).fd);
    delete &file_of(known);
    return 0;
}

/// Reads bytes. Those beyond the end of the file are zero, as in HDF5's own driver.
herr_t read_file(H5FD_t* known, H5FD_mem_t, hid_t, haddr_t from, size_t bytes, void* to) {
    auto* left = static_cast<char*>(to);
    while (bytes > 0) {
        const ssize_t got = ::pread(file_of(known).fd, left, bytes, off_t(from));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return refused("read", H5E_READERROR);
        if (got == 0) {
            std::memset(left, 0, bytes);
            return 0;
        }
        left += got;
        from += haddr_t(got);
        bytes -= size_t(got);
    }
    return 0;
}

herr_t lock_file(H5FD_t* known, hbool_t writing) {
    if (::flock(file_of(known).fd, (writing ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) return 0;
    const char* asked = std::getenv("HDF5_USE_FILE_LOCKING");
    if (errno == ENOSYS && asked != nullptr && std::string_view(asked) == "BEST_EFFORT") return 0;
    return refused("lock", H5E_CANTLOCKFILE);
}

H5FD_class_t driver_class() {
    H5FD_class_t made{};
#if H5_VERSION_GE(1, 13, 0)
    made.version = H5FD_CLASS_VERSION;
    made.value = H5FD_class_value_t(512);  // HDF5 leaves the numbers from 512 on to programs
#endif
    made.name = "convoy_descriptor";
    made.maxaddr = (haddr_t(1) << 63) - 1;
    made.fc_degree = H5F_CLOSE_WEAK;
    made.fapl_size = sizeof(int);
    made.open = open_file;
    made.close = close_file;
    made.query = [](const H5FD_t*, unsigned long* features) -> herr_t {
        if (features != nullptr)
            *features = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_SUPPORTS_SWMR_IO;
        return 0;
    };
    made.get_eoa = [](const H5FD_t* known, H5FD_mem_t) { return file_of(known).used; };
    made.set_eoa = [](H5FD_t* known, H5FD_mem_t, haddr_t end) -> herr_t {
        file_of(known).used = end;
        return 0;
    };
    made.get_eof = [](const H5FD_t* known, H5FD_mem_t) { return file_of(known).bytes; };
    made.get_handle = [](H5FD_t* known, hid_t, void** descriptor) -> herr_t {
        *descriptor = &file_of(known).fd;
        return 0;
    };
    made.read = read_file;
    made.write = [](H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) -> herr_t { return -1; };
    made.lock = lock_file;
    made.unlock = [](H5FD_t* known) -> herr_t {
        ::flock(file_of(known).fd, LOCK_UN);  // if that fails, close() unlocks
        return 0;
    };
    return made;
}

}  // namespace

Handle open_descriptor(int fd, const std::string& path) {
    static const H5FD_class_t made = driver_class();
    static const hid_t driver = H5FDregister(&made);
    const Handle access = access_without_lock();
    const bool set = driver >= 0 && H5Pset_driver(access, driver, &fd) >= 0;
    Handle file(set ? H5Fopen(path.c_str(), H5F_ACC_RDONLY, access) : H5I_INVALID_HID);
    if (!file.valid()) fail_to_open(path);  // before closing `access`, which clears the reason
    return file;
}

}  // namespace convoy::h5
