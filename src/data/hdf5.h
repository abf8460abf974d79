// A thin layer over the HDF5 C API: handles close themselves, and failures throw an Error that
// names the file. Only one thread may use HDF5 at a time. Files have V110 bounds, because older
// metadata has no checksums. Data sets are chunked with Fletcher-32; contiguous ones have none.
#pragma once
#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file_place.h"

namespace convoy {
class InputBytes;
}

namespace convoy::h5 {

/// Advice for a file that cannot be opened.
constexpr const char* check_path = "check the path: was the file moved or removed?";

/// Owns one HDF5 identifier of any kind (file, group, data set, space, type, property list).
class Handle {
public:
    Handle() = default;
    explicit Handle(hid_t id) : id_(id) {}
    Handle(Handle&& other) noexcept : id_(other.release()) {}
    Handle& operator=(Handle&& other) noexcept;
    ~Handle();
    operator hid_t() const { return id_; }
    hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }
    bool valid() const { return id_ >= 0; }

private:
    hid_t id_ = H5I_INVALID_HID;
};

/// Returns HDF5's last complaint as " (HDF5: …)", for the end of a message; empty if there is none.
/// Throws std::bad_alloc if memory did not suffice. `reading`: the file that was read, if any. For
/// an intact file HDF5 never allocates more at once than the file's size. If that much memory is
/// free, a failed allocation means that the file is damaged.
std::string because(const std::string& reading = "");

/// Throws the error for HDF5's last failure to read `what` of `path`: Inaccessible
/// (base/file_error.h) if the system refused access, else Exit::bad_input for a damaged file.
[[noreturn]] void fail_to_read(const std::string& path, const std::string& what, const std::string& advice);

/// Returns the version of the loaded library: "1.10.8".
std::string library_version();

/// Locks HDF5, which is not thread-safe. Hold it where another thread may use HDF5 at the same
/// time: metrics and checkpoints of a running training.
std::unique_lock<std::mutex> exclusive();

/// Returns file access without locks, unless HDF5_USE_FILE_LOCKING asks for them. A file that is
/// open elsewhere, or on a file system without locks, can then be read. Writing needs no lock,
/// because Convoy writes a temporary file and renames it.
Handle access_without_lock();
/// Opens a file read-only. Throws Exit::bad_input naming `path` if it is truncated, damaged, not
/// HDF5, or older than V110. Throws Inaccessible (base/file_error.h) if it is missing, cannot be
/// opened, or is open for writing.
Handle open(const std::string& path);
/// Does the same with a file that is open, even if another one has taken its path.
Handle open(const InputBytes&);
/// When chunks are written to disk. `cached`: when their data set is closed. If the disk is full
/// then, HDF5 1.14 keeps an identifier of freed memory, and the next flush of any file crashes. So
/// a process that survives a failed write must use at_once.
enum class Chunks { cached, at_once };
/// Creates a file on disk, with V110 bounds. Replaces a file or link there. Throws Exit::io.
Handle create(const FilePlace&, Chunks chunks = Chunks::cached);
/// Creates a file in memory. image() returns its bytes, to be written and renamed into place.
Handle create_in_memory();
std::vector<unsigned char> image(hid_t file);
/// Flushes and closes a file that was written. Throws Exit::io, which a destructor could not: the
/// disk may be full.
void close(Handle file, const std::string& path);

/// The element type of a data set: one of HDF5's standard types, in either byte order. All others
/// are `other`, because HDF5 reads beyond its buffers for numbers with an unusual bit layout.
enum class Element { other, u8, i32, i64, f32, f64, text };

/// Shape, type and stored size of a data set, checked before anything is allocated for it.
struct Extent {
    std::vector<hsize_t> dims;
    Element element = Element::other;
    size_t element_bytes = 0;    ///< size of one element; for a text its fixed width
    std::vector<hsize_t> chunk;  ///< dims of a chunk
    hsize_t chunk_bytes = 0;     ///< memory for one chunk, without its checksum
    hsize_t stored_bytes = 0;    ///< bytes in the file, checksums included
};
/// Returns the extent of a data set. Throws Exit::bad_input as open_dataset() does.
Extent extent(hid_t file, const std::string& dataset, const std::string& path);

/// Creates a chunked data set with Fletcher-32, and its missing parent groups. `chunk` is clipped
/// to `dims`.
Handle create_dataset(hid_t file, const std::string& name, hid_t type, std::vector<hsize_t> dims,
                      std::vector<hsize_t> chunk, const std::string& path);
/// Writes or reads rows [first, first + rows) of the leading dimension. Throws Exit::io if writing
/// fails, Exit::bad_input if reading fails. Reading refuses chunks that are missing or have a wrong
/// stored size: HDF5 would read beyond the end of a short one.
void write_rows(hid_t dataset, hid_t memory_type, hsize_t first, hsize_t rows, const void* from,
                const std::string& path);
void read_rows(hid_t dataset, hid_t memory_type, hsize_t first, hsize_t rows, void* to, const std::string& path);

/// Creates a data set of texts as create_dataset() does, in chunks of `chunk_rows`, and writes
/// them. All have the width of the longest one, because HDF5 stores texts of variable length in a
/// heap without a checksum. A text of more than `most` bytes is shortened, because every row takes
/// the bytes of the longest one. Throws Exit::io.
Handle write_texts(hid_t file, const std::string& name, const std::vector<std::string>& texts, size_t most,
                   hsize_t chunk_rows, const std::string& path);

/// True if the file itself holds `name`. Soft and external links do not count, because they may
/// lead to any file, or to a pipe that never ends. Throws Exit::bad_input for an object that HDF5
/// must not decode (data/hdf5_untrusted.h).
bool has(hid_t file, const std::string& name);
/// Opens a data set in plain chunks with Fletcher-32. Throws Exit::bad_input for any other,
/// because external storage and virtual data sets may lead to any file.
Handle open_dataset(hid_t file, const std::string& name, const std::string& path);

void set_attribute(hid_t object, const std::string& name, const std::string& value);
void set_attribute(hid_t object, const std::string& name, const char* value);
void set_attribute(hid_t object, const std::string& name, int64_t value);
void set_attribute(hid_t object, const std::string& name, double value);
void set_attribute(hid_t object, const std::string& name, const std::vector<double>& values);
void set_attribute(hid_t object, const std::string& name, const std::vector<std::string>& values);
/// Writes fixed-length strings into the object header, which has a checksum. set_attribute() writes
/// variable-length ones into a heap without a checksum. Shards and checkpoints use this function.
/// Metrics use set_attribute(), because h5py shows fixed-length strings as bytes.
void set_checked_attribute(hid_t object, const std::string& name, const std::string& value);
void set_checked_attribute(hid_t object, const std::string& name, const std::vector<std::string>& values);

/// The readers throw Exit::bad_input, naming `path` and the attribute, if it is missing, has
/// another type, or is too large. A single string may have fixed or variable length. Several
/// strings must have fixed length, because a thousand variable ones may all refer to the same
/// megabyte of the file.
bool has_attribute(hid_t object, const std::string& name);
std::string string_attribute(hid_t object, const std::string& name, const std::string& path);
int64_t int_attribute(hid_t object, const std::string& name, const std::string& path);
std::vector<double> double_attributes(hid_t object, const std::string& name, const std::string& path);
std::vector<std::string> string_attributes(hid_t object, const std::string& name, const std::string& path);

}  // namespace convoy::h5
