#include "train/metrics_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/durable.h"
#include "base/error.h"
#include "train/metrics_tables.h"

namespace convoy {
namespace {

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

MetricsLines::~MetricsLines() {
    if (file_ >= 0) ::close(file_);
}

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

/// At the start, and when somebody took the folder away.
void MetricsLines::open() {
    if (file_ >= 0 && ::access(path_.c_str(), F_OK) == 0) return;
    if (file_ >= 0) ::close(file_);
    make_folder_of(path_);
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) cannot_write(path_);
    const off_t end = ::lseek(file_, 0, SEEK_END);
    char last = '\n';  // a killed run may have left half a line
    const bool half = end > 0 && ::pread(file_, &last, 1, end - 1) == 1 && last != '\n';
    pending_ = half ? "\n" : "";
    if (end == 0) written_.fill(0);
}

void MetricsLines::flush() {
    while (!pending_.empty()) {
        const ssize_t written = ::write(file_, pending_.data(), pending_.size());
        if (written < 0 && errno != EINTR) cannot_write(path_);
        if (written > 0) pending_.erase(0, size_t(written));
    }
}

template <class Row> void MetricsLines::write_table(const Rows<Row>& rows, size_t& written) {
    constexpr size_t batch = 1 << 16;  // bytes
    while (written < rows.size()) {
        pending_ += json_line(rows[written++]);
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
