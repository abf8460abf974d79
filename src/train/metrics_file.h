// metrics.h5: the tables as HDF5 columns with units. metrics_tables.h lists them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "train/metrics_rows.h"

namespace convoy {

/// Of an HDF5 chunk: 32 KiB of doubles. The last chunk of a longer column is stored as large as the
/// others.
constexpr int64_t metrics_chunk_rows = 4096;

/// An attribute of /run.
using MetricsValue = std::variant<std::string, int64_t, double>;
using MetricsAttributes = std::vector<std::pair<std::string, MetricsValue>>;

/// The bytes of a metrics.h5. `path` is for messages. Throws Exit::io.
std::vector<unsigned char> metrics_image(const GrowingTables&, const MetricsAttributes&, const std::string& path);

struct MetricsFile {
    EachTable<std::vector> tables;
    std::map<std::string, std::string> run;  ///< those attributes of /run that are text
    template <class Row> const std::vector<Row>& rows() const { return std::get<std::vector<Row>>(tables); }
};
/// Reads a metrics.h5, also of a run that goes on. Throws Exit::bad_input if it is damaged or none.
MetricsFile read_metrics(const std::string& path);

}  // namespace convoy
