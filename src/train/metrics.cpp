// Implements the metric files: the HDF5 columns and the JSON lines both follow from the lists of metrics_tables.h.
// Text columns have a fixed width, since HDF5 keeps variable-length text in a heap that no checksum covers.
#include "train/metrics.h"

#include <fcntl.h>
#include <hdf5_hl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/durable.h"
#include "data/hdf5.h"
#include "train/metrics_tables.h"

namespace convoy {
namespace {

constexpr hsize_t chunk_rows = 131072;  // 1 MiB of doubles
constexpr size_t longest_text = 1000;   // bytes of a text that metrics.h5 keeps; metrics.jsonl has it whole
constexpr const char* format = "convoy-metrics";
constexpr int64_t version = 1;

/// At most longest_text bytes, cut between characters and marked with an ellipsis.
std::string shortened(const std::string& text) {
    if (text.size() <= longest_text) return text;
    size_t end = longest_text - 3;  // the ellipsis is three bytes in UTF-8
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return text.substr(0, end) + "…";
}

h5::Handle text_type(size_t width) {
    h5::Handle type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type, width);
    H5Tset_cset(type, H5T_CSET_UTF8);
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    return type;
}

/// Creates /group/column and fills it from one field of the rows. Returns the data set.
template <class Row> h5::Handle write_column(hid_t file, const std::vector<Row>& rows, const Column<Row>& column, const std::string& path) {
    const std::string name = std::string(Table<Row>::group) + "/" + column.name;
    const auto write = [&](hid_t file_type, hid_t memory_type, const void* values) {
        h5::Handle set = h5::create_dataset(file, name, file_type, {rows.size()}, {chunk_rows}, path);
        h5::write_rows(set, memory_type, 0, rows.size(), values, path);
        h5::set_attribute(set, "units", column.units);
        h5::set_attribute(set, "long_name", column.long_name);
        return set;
    };
    if (const auto* text = std::get_if<std::string Row::*>(&column.field)) {
        std::vector<std::string> values;
        size_t width = 1;  // HDF5 has no text of width zero
        for (const Row& row : rows) width = std::max(width, values.emplace_back(shortened(row.**text)).size());
        std::string padded;
        for (const std::string& value : values) padded += value + std::string(width - value.size(), '\0');
        const h5::Handle type = text_type(width);
        return write(type, type, padded.data());
    }
    if (const auto* integer = std::get_if<int64_t Row::*>(&column.field)) {
        std::vector<int64_t> values;
        for (const Row& row : rows) values.push_back(row.**integer);
        return write(H5T_STD_I64LE, H5T_NATIVE_INT64, values.data());
    }
    std::vector<double> values;
    for (const Row& row : rows) values.push_back(row.*std::get<double Row::*>(column.field));
    return write(H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values.data());
}

template <class Row> void write_table(hid_t file, const std::vector<Row>& rows, const std::string& path) {
    h5::Handle scale;
    for (const Column<Row>& column : Table<Row>::columns) {
        h5::Handle set = write_column(file, rows, column, path);
        const herr_t linked = scale.valid() ? H5DSattach_scale(set, scale, 0) : H5DSset_scale(set, column.name);
        if (linked < 0) fail(Exit::io, path + ": cannot make a dimension scale of /" + Table<Row>::group);
        if (!scale.valid()) scale = std::move(set);
    }
}

/// Reads one column into a field of the rows, which have the right number already.
template <class Row> void read_column(hid_t file, std::vector<Row>& rows, const Column<Row>& column, const std::string& path) {
    const std::string name = std::string(Table<Row>::group) + "/" + column.name;
    const h5::Handle set = h5::open_dataset(file, name, path);
    const h5::Extent extent = h5::extent(file, name, path);
    const auto* text = std::get_if<std::string Row::*>(&column.field);
    const auto* integer = std::get_if<int64_t Row::*>(&column.field);
    const H5T_class_t wanted = text ? H5T_STRING : integer ? H5T_INTEGER : H5T_FLOAT;
    if (extent.dims != std::vector<hsize_t>{rows.size()} || extent.type_class != wanted || (text && extent.type_size > longest_text))
        fail(Exit::bad_input, path + ": /" + name + " does not fit its table; move the file away to go on without its rows");
    if (text) {
        std::string padded(rows.size() * extent.type_size, '\0');
        h5::read_rows(set, text_type(extent.type_size), 0, rows.size(), padded.data(), path);
        for (size_t i = 0; i < rows.size(); ++i)
            rows[i].** text = std::string(padded, i * extent.type_size, strnlen(&padded[i * extent.type_size], extent.type_size));
    } else if (integer) {
        std::vector<int64_t> values(rows.size());
        h5::read_rows(set, H5T_NATIVE_INT64, 0, rows.size(), values.data(), path);
        for (size_t i = 0; i < rows.size(); ++i) rows[i].** integer = values[i];
    } else {
        std::vector<double> values(rows.size());
        h5::read_rows(set, H5T_NATIVE_DOUBLE, 0, rows.size(), values.data(), path);
        for (size_t i = 0; i < rows.size(); ++i) rows[i].*std::get<double Row::*>(column.field) = values[i];
    }
}

/// Reads a table; what an older version did not write stays empty, and a column of its rows keeps its default.
template <class Row> void read_table(hid_t file, std::vector<Row>& rows, const std::string& path) {
    const std::string group = Table<Row>::group, scale = group + "/" + Table<Row>::columns[0].name;
    if (!h5::has(file, group)) return;
    const h5::Extent extent = h5::extent(file, scale, path);
    hsize_t bytes = 0;
    H5Fget_filesize(file, &bytes);
    if (extent.dims.size() != 1 || extent.dims[0] > bytes / sizeof(int64_t)) fail(Exit::bad_input, path + ": /" + scale + " is damaged");
    rows.resize(extent.dims[0]);
    for (const Column<Row>& column : Table<Row>::columns)
        if (h5::has(file, group + "/" + column.name)) read_column(file, rows, column, path);
}

/// Whether a row of the earlier run still counts at the point where the run goes on.
template <class Row> bool keeps(const Row& row, const MetricsResume& resume) {
    if constexpr (std::is_same_v<Row, EventRow>)
        return true;
    else if constexpr (std::is_same_v<Row, EvalRow>)
        return row.step < resume.step || (row.step == resume.step && !resume.evaluation_due);
    else if constexpr (requires { row.step; })
        return row.step <= resume.step;
    else if constexpr (requires { row.epoch; })
        return row.epoch <= resume.epochs_done;
    else
        return true;
}

template <class Row> std::string json_line(const Row& row) {
    nlohmann::ordered_json line;
    line["kind"] = Table<Row>::kind;
    for (const Column<Row>& column : Table<Row>::columns) {
        const std::string key = std::strcmp(column.name, "kind") == 0 ? "event" : column.name;
        std::visit([&](auto field) { line[key] = row.*field; }, column.field);  // a NaN becomes null
    }
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

MetricsFile read_metrics(const std::string& path) {
    const auto lock = h5::exclusive();
    const h5::Handle file = h5::open(path);
    if (h5::string_attribute(file, "format", path) != format || h5::int_attribute(file, "version", path) != version)
        fail(Exit::bad_input, path + ": is not a metric file of this version; give the folder of another run, or move it away");
    MetricsFile read;
    std::apply([&](auto&... rows) { (read_table(file, rows, path), ...); }, read.tables);
    const h5::Handle run(H5Gopen2(file, "run", H5P_DEFAULT));
    if (!run.valid()) fail(Exit::bad_input, path + ": /run cannot be read: the file is damaged" + h5::because());
    for (int i = 0, count = H5Aget_num_attrs(run); i < count; ++i) {
        const h5::Handle attribute(H5Aopen_by_idx(run, ".", H5_INDEX_NAME, H5_ITER_INC, hsize_t(i), H5P_DEFAULT, H5P_DEFAULT));
        const h5::Handle type(attribute.valid() ? H5Aget_type(attribute) : H5I_INVALID_HID);
        char name[256] = "";
        if (type.valid() && H5Tget_class(type) == H5T_STRING && H5Aget_name(attribute, sizeof name, name) > 0)
            read.run[name] = h5::string_attribute(run, name, path);
    }
    return read;
}

Metrics::Metrics(const std::string& run_dir, std::optional<MetricsResume> resume)
    : path_(run_dir + "/metrics.h5"), lines_path_(run_dir + "/metrics.jsonl") {
    struct stat status {};
    if (::stat(path_.c_str(), &status) == 0) {
        if (!resume) fail(Exit::usage, path_ + ": belongs to another run; resume that run, or choose a new folder");
        load(*resume);
    }
    publish();
}

Metrics::~Metrics() {
    if (lines_ >= 0) ::close(lines_);
}

void Metrics::run_attribute(const std::string& name, Value value) {
    const auto known = std::find_if(attributes_.begin(), attributes_.end(), [&](const auto& entry) { return entry.first == name; });
    if (known == attributes_.end())
        attributes_.emplace_back(name, std::move(value));
    else
        known->second = std::move(value);
    changed_ = true;
}

template <class Row> void Metrics::append(const Row& row) {
    std::get<std::vector<Row>>(tables_).push_back(row);
    changed_ = true;
    write_line(json_line(row));
}
template void Metrics::append(const TrainRow&);
template void Metrics::append(const EvalRow&);
template void Metrics::append(const EpochRow&);
template void Metrics::append(const RankRow&);
template void Metrics::append(const RankEpochRow&);
template void Metrics::append(const SystemRow&);

void Metrics::event(int64_t step, const std::string& kind, const std::string& message) {
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    char iso[32] = "";
    std::strftime(iso, sizeof iso, "%Y-%m-%dT%H:%M:%SZ", &utc);
    append(EventRow{std::chrono::duration<double>(now.time_since_epoch()).count(), iso, step, kind, message});
}

/// One write a line, so that a reader of the file sees whole lines.
void Metrics::write_line(const std::string& line) {
    char last = '\n';  // a full disk, in this run or one before, may have left half a line
    const off_t end = torn_ ? ::lseek(lines_, 0, SEEK_END) : 0;
    const bool half = end > 0 && ::pread(lines_, &last, 1, end - 1) == 1 && last != '\n';
    const std::string whole = (half ? "\n" : "") + line;
    torn_ = !write_all(lines_, whole.data(), whole.size());
    if (torn_) cannot_write(lines_path_);
}

void Metrics::load(const MetricsResume& resume) {
    tables_ = read_metrics(path_).tables;
    std::get<std::vector<RankRow>>(tables_).clear();  // who takes part is said anew
    go_back(resume);
}

void Metrics::go_back(const MetricsResume& to) {
    std::apply([&](auto&... rows) { (std::erase_if(rows, [&](const auto& row) { return !keeps(row, to); }), ...); }, tables_);
    changed_ = true;
}

void Metrics::publish() {
    const auto lock = h5::exclusive();
    publish_locked();
}

void Metrics::publish_locked() {
    const h5::Handle file = h5::create_in_memory();
    h5::set_attribute(file, "format", format);
    h5::set_attribute(file, "version", version);
    {
        const h5::Handle run(H5Gcreate2(file, "run", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        if (!run.valid()) fail(Exit::io, path_ + ": cannot make the group /run");
        for (const auto& [name, value] : attributes_)
            std::visit([&, &name = name](const auto& plain) { h5::set_attribute(run, name, plain); }, value);
    }
    std::apply([&](const auto&... rows) { (write_table(file, rows, path_), ...); }, tables_);
    replace_file(path_, h5::image(file));
    if (lines_ < 0 || ::access(lines_path_.c_str(), F_OK) != 0) {  // at the start, or somebody took the folder away
        if (lines_ >= 0) ::close(lines_);
        lines_ = ::open(lines_path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (lines_ < 0) cannot_write(lines_path_);
    }
    published_ = std::chrono::steady_clock::now();
    changed_ = false;
}

void Metrics::publish_if_due(double every_seconds) {
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - published_;
    if (!changed_ || since.count() < every_seconds) return;
    if (const auto lock = h5::exclusive(false)) publish_locked();  // else a checkpoint is being written: later
}

}  // namespace convoy
