// Writes and reads metrics.h5: the tables of metrics_tables.h as HDF5 columns with units.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "run/metrics_rows.h"

namespace convoy {

/// Rows per HDF5 chunk: 32 KiB of doubles. A column longer than this occupies whole chunks.
constexpr int64_t metrics_chunk_rows = 4096;

/// An attribute of /run.
using MetricsValue = std::variant<std::string, int64_t, double>;
using MetricsAttributes = std::vector<std::pair<std::string, MetricsValue>>;

/// Returns the bytes of a metrics.h5. `path` is for messages. Throws Exit::io.
std::vector<unsigned char> metrics_image(const GrowingTables&, const MetricsAttributes&, const std::string& path);

struct MetricsFile {
    EachTable<std::vector> tables;
    std::map<std::string, std::string> run;  ///< the text attributes of /run
    template <class Row> const std::vector<Row>& rows() const { return std::get<std::vector<Row>>(tables); }
};
/// Reads a metrics.h5, also that of an active run. Throws Exit::bad_input if it is damaged or not a
/// metrics file.
MetricsFile read_metrics(const std::string& path);

}  // namespace convoy
