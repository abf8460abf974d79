#include "accept/figures_file.h"

#include <algorithm>

#include "data/hdf5.h"

namespace convoy {
namespace {

constexpr hsize_t chunk_rows = 4096;
constexpr size_t longest_text = 1000;  // bytes

/// Writes the columns of a figure into the group `group`.
class FigureColumns {
public:
    FigureColumns(hid_t file, std::string group, std::vector<Figure> figures, std::string path)
        : file_(file), group_(std::move(group)), figures_(std::move(figures)), path_(std::move(path)) {}

    void write() const {
        write_numbers("value", &Figure::value, figures_[0].unit);
        write_texts("host", &Figure::host);
        write_texts("peer", &Figure::peer);
        write_ranks();
        if (!figures_[0].at_unit.empty()) write_numbers("at", &Figure::at, figures_[0].at_unit);
    }

private:
    std::string name(const char* column) const { return group_ + "/" + column; }

    void write_numbers(const char* column, double Figure::* field, const std::string& unit) const {
        std::vector<double> values;
        for (const Figure& f : figures_) values.push_back(f.*field);
        const h5::Handle set =
            h5::create_dataset(file_, name(column), H5T_IEEE_F64LE, {values.size()}, {chunk_rows}, path_);
        h5::write_rows(set, H5T_NATIVE_DOUBLE, 0, values.size(), values.data(), path_);
        h5::set_attribute(set, "units", unit);
    }
    void write_texts(const char* column, std::string Figure::* field) const {
        std::vector<std::string> texts;
        for (const Figure& f : figures_) texts.push_back(f.*field);
        if (std::ranges::all_of(texts, &std::string::empty)) return;
        const h5::Handle set = h5::write_texts(file_, name(column), texts, longest_text, chunk_rows, path_);
        h5::set_attribute(set, "units", "none");
    }
    void write_ranks() const {
        std::vector<int64_t> ranks;
        for (const Figure& f : figures_) ranks.push_back(f.rank);
        if (std::ranges::all_of(ranks, [](int64_t rank) { return rank < 0; })) return;
        const h5::Handle set =
            h5::create_dataset(file_, name("rank"), H5T_STD_I64LE, {ranks.size()}, {chunk_rows}, path_);
        h5::write_rows(set, H5T_NATIVE_INT64, 0, ranks.size(), ranks.data(), path_);
        h5::set_attribute(set, "units", "1");
    }

    const hid_t file_;
    const std::string group_;
    const std::vector<Figure> figures_;  // at least one
    const std::string path_;
};

void write_level(hid_t file, const LevelResult& r, const std::string& path) {
    const h5::Handle group(H5Gcreate2(file, r.level.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    if (!group.valid()) fail(Exit::io, path + ": cannot make the group /" + r.level);
    h5::set_attribute(group, "outcome", name_of(r.outcome));
    h5::set_attribute(group, "figure", r.figure);
    h5::set_attribute(group, "expected", r.expected);
    h5::set_attribute(group, "seconds", r.seconds);
    std::vector<std::string> written;
    for (const Figure& f : r.figures) {
        if (std::ranges::count(written, f.name) > 0) continue;
        FigureColumns(file, r.level + "/" + f.name, figures_named(r, f.name), path).write();
        written.push_back(f.name);
    }
}

}  // namespace

std::vector<unsigned char> acceptance_metrics(const Acceptance& a, const std::string& path) {
    const auto lock = h5::exclusive();
    const h5::Handle file = h5::create_in_memory();
    h5::set_attribute(file, "format", "convoy-accept");
    h5::set_attribute(file, "version", int64_t(1));
    h5::set_attribute(file, "convoy", a.version);
    h5::set_attribute(file, "commit", a.commit);
    h5::set_attribute(file, "began", a.began);
    h5::set_attribute(file, "verdict", verdict_name(a));
    h5::set_attribute(file, "nodes", int64_t(a.nodes));
    h5::set_attribute(file, "ranks", int64_t(a.ranks));
    for (const LevelResult& r : a.levels) write_level(file, r, path);
    return h5::image(file);
}

}  // namespace convoy
