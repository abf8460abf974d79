// metrics.jsonl: the rows of the tables as lines, for tail -f. A row that could not be written
// follows later: the tables have it.
#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <tuple>

#include "train/metrics_rows.h"
#include "train/run_files.h"

namespace convoy {

class MetricsLines {
public:
    explicit MetricsLines(const RunFiles& files) : files_(files) {}

    /// Appends the rows that are not in the file yet, table by table; all of them if there is no
    /// file (any more). Throws Exit::io; the next call goes on where this one failed, within a line
    /// if need be.
    void write(const GrowingTables&);
    /// The rows of an earlier run, which count as written.
    void set_written(const GrowingTables&);
    /// Tables that became shorter: what is added after their ends is new.
    void forget_after(const GrowingTables&);

private:
    void open();
    template <class Row> void write_table(const Rows<Row>&, size_t& written);
    void flush();

    const RunFiles files_;
    Descriptor file_{-1};
    std::string pending_;  // is in no file yet; may begin within a line
    // rows of each table that are written or pending
    std::array<size_t, std::tuple_size_v<GrowingTables>> written_{};
};

}  // namespace convoy
