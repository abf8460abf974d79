// Text columns have a fixed width, because HDF5 stores variable-length text in a heap without a
// checksum.
#include "run/metrics_file.h"

#include <hdf5_hl.h>

#include <algorithm>
#include <cstring>

#include "data/hdf5.h"
#include "run/metrics_tables.h"

namespace convoy {
namespace {

constexpr size_t longest_text = 1000;  // bytes; metrics.h5 truncates longer texts, metrics.jsonl does not
constexpr const char* format = "convoy-metrics";
constexpr int64_t version = 1;

/// Creates /group/column and fills it from one field of the rows. Returns the data set.
template <class Row>
h5::Handle write_column(hid_t file, const Rows<Row>& rows, const Column<Row>& column, const std::string& path) {
    const std::string name = std::string(Table<Row>::group) + "/" + column.name;
    const auto described = [&](h5::Handle set) {
        h5::set_attribute(set, "units", column.units);
        h5::set_attribute(set, "long_name", column.long_name);
        return set;
    };
    const auto write = [&](hid_t file_type, hid_t memory_type, const void* values) {
        h5::Handle set = h5::create_dataset(file, name, file_type, {rows.size()}, {hsize_t(metrics_chunk_rows)}, path);
        h5::write_rows(set, memory_type, 0, rows.size(), values, path);
        return described(std::move(set));
    };
    if (const auto* text = std::get_if<std::string Row::*>(&column.field)) {
        std::vector<std::string> values;
        for (size_t i = 0; i < rows.size(); ++i) values.push_back(rows[i].**text);
        return described(h5::write_texts(file, name, values, longest_text, hsize_t(metrics_chunk_rows), path));
    }
    if (const auto* integer = std::get_if<int64_t Row::*>(&column.field)) {
        std::vector<int64_t> values(rows.size());
        for (size_t i = 0; i < rows.size(); ++i) values[i] = rows[i].**integer;
        return write(H5T_STD_I64LE, H5T_NATIVE_INT64, values.data());
    }
    std::vector<double> values(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) values[i] = rows[i].*std::get<double Row::*>(column.field);
    return write(H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values.data());
}

template <class Row> void write_table(hid_t file, const Rows<Row>& rows, const std::string& path) {
    h5::Handle scale;
    for (const Column<Row>& column : Table<Row>::columns) {
        h5::Handle set = write_column(file, rows, column, path);
        const herr_t linked = scale.valid() ? H5DSattach_scale(set, scale, 0) : H5DSset_scale(set, column.name);
        if (linked < 0) fail(Exit::io, path + ": cannot make a dimension scale of /" + Table<Row>::group);
        if (!scale.valid()) scale = std::move(set);
    }
}

[[noreturn]] void fail_to_fit(const std::string& path, const std::string& name) {
    fail(Exit::bad_input,
         path + ": /" + name + " does not fit its table; move the file away to continue without its rows");
}

template <class Row> std::string name_of(const Column<Row>& column) {
    return std::string(Table<Row>::group) + "/" + column.name;
}

/// Returns the extent of a column. Throws Exit::bad_input if its table cannot have `rows` rows.
template <class Row>
h5::Extent extent_of(hid_t file, hsize_t rows, const Column<Row>& column, const std::string& path) {
    const h5::Extent extent = h5::extent(file, name_of(column), path);
    const bool is_text = std::holds_alternative<std::string Row::*>(column.field),
               is_integer = std::holds_alternative<int64_t Row::*>(column.field);
    const h5::Element wanted = is_text ? h5::Element::text : is_integer ? h5::Element::i64 : h5::Element::f64;
    if (extent.dims != std::vector<hsize_t>{rows} || extent.element != wanted ||
        (is_text && extent.element_bytes > longest_text) || extent.stored_bytes / extent.element_bytes < rows)
        fail_to_fit(path, name_of(column));
    return extent;
}

/// Reads one column into a field of `rows`, which already has the right size.
template <class Row>
void read_column(hid_t file, std::vector<Row>& rows, const Column<Row>& column, const std::string& path) {
    const h5::Handle set = h5::open_dataset(file, name_of(column), path);
    const h5::Extent extent = extent_of(file, rows.size(), column, path);
    const auto* text = std::get_if<std::string Row::*>(&column.field);
    const auto* integer = std::get_if<int64_t Row::*>(&column.field);
    if (text) {
        const size_t width = extent.element_bytes;
        std::string padded(rows.size() * width, '\0');
        h5::read_rows(set, h5::Handle(H5Dget_type(set)), 0, rows.size(), padded.data(), path);
        for (size_t i = 0; i < rows.size(); ++i)
            rows[i].** text = std::string(padded, i * width, strnlen(&padded[i * width], width));
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

/// Reads a table. A table that an older version did not write stays empty; a column that it did not
/// write keeps its default. Subtracts the stored bytes of its columns from `left`, because columns
/// could be several names of one data set. Throws Exit::bad_input if fewer are left.
template <class Row> void read_table(hid_t file, std::vector<Row>& rows, hsize_t& left, const std::string& path) {
    const std::string group = Table<Row>::group, scale = group + "/" + Table<Row>::columns[0].name;
    if (!h5::has(file, group)) return;
    const h5::Extent extent = h5::extent(file, scale, path);
    if (extent.dims.size() != 1 || extent.dims[0] > std::min(left, extent.stored_bytes) / sizeof(int64_t))
        fail(Exit::bad_input, path + ": /" + scale + " is damaged");
    // In memory a row has all columns. A file that lacks most of them could take gigabytes.
    constexpr hsize_t most_incomplete = 1 << 20;
    std::vector<const Column<Row>*> present;
    for (const Column<Row>& column : Table<Row>::columns) {
        if (!h5::has(file, name_of(column))) continue;
        present.push_back(&column);
        const hsize_t stored = extent_of(file, extent.dims[0], column, path).stored_bytes;
        if (stored > left) fail_to_fit(path, name_of(column));
        left -= stored;
    }
    const bool is_complete = present.size() == std::size(Table<Row>::columns);
    if (extent.dims[0] > most_incomplete && !is_complete) fail_to_fit(path, scale);
    rows.resize(extent.dims[0]);
    for (const Column<Row>* column : present) read_column(file, rows, *column, path);
}

/// Reads the text attributes of /run.
void read_run(hid_t file, std::map<std::string, std::string>& texts, const std::string& path) {
    constexpr int most = 4096;  // Convoy writes less than a hundred
    const std::string advice = "move the file away to continue without its rows";
    if (!h5::has(file, "run")) fail(Exit::bad_input, path + ": has no group /run; " + advice);
    const h5::Handle run(H5Gopen2(file, "run", H5P_DEFAULT));
    const int count = run.valid() ? H5Aget_num_attrs(run) : -1;
    if (count < 0) h5::fail_to_read(path, "/run", advice);
    if (count > most) fail(Exit::bad_input, path + ": /run has " + std::to_string(count) + " attributes; " + advice);
    std::vector<std::string> names;  // collected first, because HDF5 sorts all of them to find one by its number
    const auto note = [](hid_t, const char* name, const H5A_info_t*, void* all) -> herr_t {
        static_cast<std::vector<std::string>*>(all)->emplace_back(name);
        return 0;
    };
    if (H5Aiterate2(run, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, note, &names) < 0)
        h5::fail_to_read(path, "/run", advice);
    for (const std::string& name : names) {
        const h5::Handle attribute(H5Aopen(run, name.c_str(), H5P_DEFAULT));
        const h5::Handle type(attribute.valid() ? H5Aget_type(attribute) : H5I_INVALID_HID);
        constexpr size_t longest = 255;  // the names that Convoy writes are shorter
        if (type.valid() && H5Tget_class(type) == H5T_STRING && name.size() <= longest)
            texts[name] = h5::string_attribute(run, name, path);
    }
}

}  // namespace

std::vector<unsigned char> metrics_image(const GrowingTables& tables, const MetricsAttributes& attributes,
                                         const std::string& path) {
    const auto lock = h5::exclusive();
    const h5::Handle file = h5::create_in_memory();
    h5::set_attribute(file, "format", format);
    h5::set_attribute(file, "version", version);
    {
        const h5::Handle run(H5Gcreate2(file, "run", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
        if (!run.valid()) fail(Exit::io, path + ": cannot make the group /run");
        for (const auto& [name, value] : attributes)
            std::visit([&, &name = name](const auto& plain) { h5::set_attribute(run, name, plain); }, value);
    }
    std::apply([&](const auto&... rows) { (write_table(file, rows, path), ...); }, tables);
    return h5::image(file);
}

MetricsFile read_metrics(const std::string& path) {
    const auto lock = h5::exclusive();
    const h5::Handle file = h5::open(path);
    if (h5::string_attribute(file, "format", path) != format || h5::int_attribute(file, "version", path) != version)
        fail(Exit::bad_input,
             path + ": is not a metric file of this version; give the folder of another run, or move it away");
    MetricsFile read;
    hsize_t left = 0;
    H5Fget_filesize(file, &left);
    std::apply([&](auto&... rows) { (read_table(file, rows, left, path), ...); }, read.tables);
    read_run(file, read.run, path);
    return read;
}

}  // namespace convoy
