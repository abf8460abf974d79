// Writes metrics.jsonl: the rows of the tables as lines, for tail -f. A row that could not be
// written is written later, from the tables.
#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <tuple>

#include "run/metrics_rows.h"
#include "train/run_files.h"

namespace convoy {

class MetricsLines {
public:
    explicit MetricsLines(const RunFiles& files) : files_(files) {}

    /// Appends the rows that are not in the file yet, table by table. If the file is missing,
    /// writes all rows. Throws Exit::io. The next call continues where this one failed, even within
    /// a line.
    void write(const GrowingTables&);
    /// Marks the rows of these tables as written; an earlier run wrote them.
    void set_written(const GrowingTables&);
    /// Call it when tables became shorter. Rows that are added later then count as new.
    void forget_after(const GrowingTables&);

private:
    void open();
    template <class Row> void write_table(const Rows<Row>&, size_t& written);
    void flush();

    const RunFiles files_;
    Descriptor file_{-1};
    std::string pending_;  // text to be written; may begin within a line
    // The number of rows of each table that are written or pending.
    std::array<size_t, std::tuple_size_v<GrowingTables>> written_{};
};

}  // namespace convoy
