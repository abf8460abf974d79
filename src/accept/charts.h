// Pictures of a report as SVG, to stand in an HTML page. Colours are CSS classes of that page: s0,
// s1, … for series, bad for what is wrong. Browsers show the title of a part under the pointer.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace convoy {

/// One value per group; NaN: none.
struct ChartSeries {
    std::string name;
    std::vector<double> values;
};

/// A line across one bar of each group. Its name is its CSS class, too: median, limit or expected.
struct ChartMark {
    std::string name;
    std::vector<double> values;
    size_t bar = 0;  ///< index in BarChart::bars
};

/// Bars side by side, in groups.
struct BarChart {
    std::string id, unit;
    std::vector<std::string> groups;  ///< names, below the bars
    std::vector<ChartSeries> bars;
    std::vector<ChartMark> marks{};
    std::vector<bool> bad{};  ///< by group; true: drawn in the colour `bad`, with a "!"; empty: all false
};
std::string svg_of(const BarChart&);

/// Points joined by lines.
struct ChartLine {
    std::string name;
    std::vector<std::pair<double, double>> points;
    bool dashed = false;
};
struct LineChart {
    std::string id, x_unit, y_unit;
    std::vector<ChartLine> lines;  ///< at least one, each with a point
    bool of_sizes = false;         ///< x in bytes, on a logarithmic axis
};
std::string svg_of(const LineChart&);

/// A square of bandwidths [bytes/s] between things of one kind; NaN: no value. If there is room,
/// the cells have numbers in GB/s.
struct HeatMap {
    std::string id;
    std::vector<std::string> names;
    std::vector<std::vector<double>> values;
    double limit = 0;  ///< values below it are wrong; 0: none are
};
std::string svg_of(const HeatMap&);

/// Returns four to seven ticks from 0 to `most` or just above it. Their distance is 1, 2 or 5 times
/// a power of ten. `most` must be above 1e-300.
std::vector<double> ticks_to(double most);

/// Returns a value with three digits and its unit. Bytes/s and Hz get a prefix: "12.5 GB/s".
std::string with_unit(double value, const std::string& unit);

}  // namespace convoy
