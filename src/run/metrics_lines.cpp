#include "run/metrics_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/durable.h"
#include "base/error.h"
#include "run/metrics_tables.h"

namespace convoy {
namespace {

constexpr const char* lines_name = "metrics.jsonl";

std::string json(const std::string& text, const char*) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
std::string json(int64_t number, const char*) { return std::to_string(number); }
/// Formats a number with seven digits, and points in time with milliseconds. metrics.h5 has full
/// precision.
std::string json(double number, const char* units) {
    if (!std::isfinite(number)) return "null";
    char text[400];
    const bool point_in_time = std::strncmp(units, "seconds since", 13) == 0;
    const std::to_chars_result end = point_in_time
                                         ? std::to_chars(text, std::end(text), number, std::chars_format::fixed, 3)
                                         : std::to_chars(text, std::end(text), number, std::chars_format::general, 7);
    return {text, end.ptr};
}

template <class Row> void append_line(std::string& to, const Row& row) {
    to.append("{\"kind\":\"").append(Table<Row>::kind).append("\"");
    for (const Column<Row>& column : Table<Row>::columns) {
        const char* key = std::strcmp(column.name, "kind") == 0 ? "event" : column.name;
        to.append(",\"").append(key).append("\":");
        std::visit([&](auto field) { to.append(json(row.*field, column.units)); }, column.field);
    }
    to.append("}\n");
}

}  // namespace

void MetricsLines::set_written(const GrowingTables& tables) {
    std::apply([&](const auto&... rows) { written_ = {rows.size()...}; }, tables);
}

void MetricsLines::forget_after(const GrowingTables& tables) {
    size_t table = 0;
    const auto limit = [&](size_t rows) {
        written_[table] = std::min(written_[table], rows);
        ++table;
    };
    std::apply([&](const auto&... rows) { (limit(rows.size()), ...); }, tables);
}

/// Opens the file at the start, and again if it or its folder was removed.
void MetricsLines::open() {
    const HeldFolder folder = files_.run();
    if (file_.valid() && folder.has(lines_name)) return;
    const int only_new = file_.valid() ? O_EXCL : 0;
    // O_NONBLOCK: a pipe that took the file's place after it was checked must not block the run.
    file_ = folder.open_to_write(lines_name, O_RDWR | O_APPEND | O_NONBLOCK | only_new);
    struct stat status{};
    if (::fstat(file_.fd(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1)
        fail(Exit::io, files_.path() + "/" + lines_name + ": is not a plain file, or has several names; remove it");
    const off_t end = ::lseek(file_.fd(), 0, SEEK_END);
    char last = '\n';  // a killed run may have left half a line
    const bool half = end > 0 && ::pread(file_.fd(), &last, 1, end - 1) == 1 && last != '\n';
    pending_ = half ? "\n" : "";
    if (end == 0) written_.fill(0);
}

void MetricsLines::flush() {
    while (!pending_.empty()) {
        const ssize_t written = ::write(file_.fd(), pending_.data(), pending_.size());
        if (written < 0 && errno != EINTR) cannot_write(files_.path() + "/" + lines_name);
        if (written > 0) pending_.erase(0, size_t(written));
    }
}

template <class Row> void MetricsLines::write_table(const Rows<Row>& rows, size_t& written) {
    constexpr size_t batch = 1 << 16;  // bytes
    while (written < rows.size()) {
        append_line(pending_, rows[written++]);
        if (pending_.size() >= batch) flush();
    }
}

void MetricsLines::write(const GrowingTables& tables) {
    open();
    flush();
    size_t table = 0;
    std::apply([&](const auto&... rows) { (write_table(rows, written_[table++]), ...); }, tables);
    flush();
}

}  // namespace convoy
