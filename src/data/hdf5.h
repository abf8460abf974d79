// A thin owner layer over the HDF5 C API: handles close themselves, failures throw Error and name
// the file. Only one thread uses HDF5 at a time. Files are written with V110 bounds, and data sets
// with Fletcher-32: contiguous data sets and older metadata miss bit flips.
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

namespace convoy::h5 {

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

/// " (HDF5: …)", what HDF5 last complained about, for the end of a message; empty if it said
/// nothing. Throws std::bad_alloc if memory did not suffice. `reading`: the file that was read, if
/// one was. No sound file makes HDF5 take more at once than the file holds: if that much is free,
/// the file is damaged.
std::string because(const std::string& reading = "");

/// Throws what HDF5's last failure to read `what` of `path` means: Inaccessible (base/file_error.h)
/// if the system refused it, else Exit::bad_input: the file is damaged.
[[noreturn]] void fail_to_read(const std::string& path, const std::string& what, const std::string& advice);

/// Of the library that is running: "1.10.8".
std::string library_version();

/// HDF5 is not thread-safe: whoever uses it while another thread may (metrics and checkpoints of a
/// running training) holds this.
std::unique_lock<std::mutex> exclusive();

/// File access in which HDF5 takes no lock, unless HDF5_USE_FILE_LOCKING asks for it: a file that
/// is open elsewhere for reading, or on a file system without locks, can be read all the same.
/// Writing needs no lock: Convoy writes a temporary file and renames it.
Handle access_without_lock();
/// Opens a file read-only. Throws Exit::bad_input naming `path` if it is truncated, damaged, not
/// HDF5 or of a format older than V110; Inaccessible (base/file_error.h) if it is missing, cannot
/// be opened, or is open for writing.
Handle open(const std::string& path);
/// When chunks go to disk. From the cache they go when their data set is closed; if the disk is
/// full then, HDF5 1.14 keeps an identifier of freed memory, and the next flush of any file
/// crashes. A process that goes on after a failed write therefore writes at once.
enum class Chunks { cached, at_once };
/// Creates a file on disk, in place of a file or link that is there (V110 bounds). Throws Exit::io.
Handle create(const FilePlace&, Chunks chunks = Chunks::cached);
/// A file that lives in memory only; `image` gives its bytes, ready to be written and renamed into
/// place.
Handle create_in_memory();
std::vector<unsigned char> image(hid_t file);
/// Flushes and closes a file that was written; a destructor could not report that the disk is full.
/// Throws Exit::io.
void close(Handle file, const std::string& path);

/// The type of a data set's elements, bit for bit HDF5's standard one, of either byte order. HDF5
/// reads beyond its buffers for integers and floats whose bits lie elsewhere.
enum class Element { other, u8, i32, i64, f32, f64, text };

/// What a data set is, checked before anything is allocated for it.
struct Extent {
    std::vector<hsize_t> dims;
    Element element = Element::other;
    size_t element_bytes = 0;    ///< of one element; of a text: its fixed width
    std::vector<hsize_t> chunk;  ///< dims of a chunk
    hsize_t chunk_bytes = 0;     ///< what reading one chunk allocates, without its checksum
    hsize_t stored_bytes = 0;    ///< what the file really holds, checksums included
};
/// Throws Exit::bad_input as open_dataset() does.
Extent extent(hid_t file, const std::string& dataset, const std::string& path);

/// Creates a chunked, Fletcher-32 data set; `chunk` is clipped to `dims`. Missing parent groups are
/// created.
Handle create_dataset(hid_t file, const std::string& name, hid_t type, std::vector<hsize_t> dims,
                      std::vector<hsize_t> chunk, const std::string& path);
/// Writes or reads rows [first, first + rows) of the leading dimension. Read failures are
/// Exit::bad_input, write failures Exit::io. Reading refuses a chunk that is missing or stored in
/// another size than it must have: HDF5 would read beyond the end of a short one.
void write_rows(hid_t dataset, hid_t memory_type, hsize_t first, hsize_t rows, const void* from,
                const std::string& path);
void read_rows(hid_t dataset, hid_t memory_type, hsize_t first, hsize_t rows, void* to, const std::string& path);

/// Whether the file itself holds `name`. Soft and external links do not count: they may lead to any
/// file, or to a pipe that never ends. Throws Exit::bad_input for an object that HDF5 must not
/// decode (data/hdf5_untrusted.h).
bool has(hid_t file, const std::string& name);
/// Opens a data set in plain chunks with Fletcher-32. Throws Exit::bad_input for any other:
/// external storage and virtual data sets may lead to any file.
Handle open_dataset(hid_t file, const std::string& name, const std::string& path);

void set_attribute(hid_t object, const std::string& name, const std::string& value);
void set_attribute(hid_t object, const std::string& name, const char* value);
void set_attribute(hid_t object, const std::string& name, int64_t value);
void set_attribute(hid_t object, const std::string& name, double value);
void set_attribute(hid_t object, const std::string& name, const std::vector<double>& values);
void set_attribute(hid_t object, const std::string& name, const std::vector<std::string>& values);
/// Fixed-length strings lie in the object header, which HDF5 checksums; the variable-length ones
/// that set_attribute writes lie in a heap without a checksum. Shards and checkpoints use these;
/// h5py shows them as bytes, so metrics use set_attribute.
void set_checked_attribute(hid_t object, const std::string& name, const std::string& value);
void set_checked_attribute(hid_t object, const std::string& name, const std::vector<std::string>& values);

/// Readers throw Exit::bad_input naming `path` and the attribute if it is missing, of another type
/// or too large. A single string may be of fixed or variable length; several are of fixed length,
/// because each of a thousand variable ones may be the same megabyte of the file.
bool has_attribute(hid_t object, const std::string& name);
std::string string_attribute(hid_t object, const std::string& name, const std::string& path);
int64_t int_attribute(hid_t object, const std::string& name, const std::string& path);
std::vector<double> double_attributes(hid_t object, const std::string& name, const std::string& path);
std::vector<std::string> string_attributes(hid_t object, const std::string& name, const std::string& path);

}  // namespace convoy::h5
