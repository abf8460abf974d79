// The table of metric columns in output/FORMAT.md equals the code's, line by line: name, unit and
// description.
#include "run/metrics_tables.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/support.h"

namespace convoy::test {
namespace {

template <class Row> void add_lines(std::vector<std::string>& lines) {
    for (const Column<Row>& column : Table<Row>::columns)
        lines.push_back("| `/" + std::string(Table<Row>::group) + "/" + column.name + "` | " + column.units + " | " +
                        column.long_name + " |");
}

TEST(MetricsTables, AreThoseOfTheReadme) {
    std::vector<std::string> wanted, written;
    add_lines<TrainRow>(wanted);
    add_lines<EvalRow>(wanted);
    add_lines<EpochRow>(wanted);
    add_lines<RankRow>(wanted);
    add_lines<RankEpochRow>(wanted);
    add_lines<SystemRow>(wanted);
    add_lines<EventRow>(wanted);
    std::istringstream readme(read_file("output/FORMAT.md"));
    for (std::string line; std::getline(readme, line);)
        if (line.starts_with("| `/")) written.push_back(line);
    EXPECT_EQ(written, wanted);
}

}  // namespace
}  // namespace convoy::test
