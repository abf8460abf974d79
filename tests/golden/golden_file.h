// A file of golden values as tests/golden/make_golden.py writes it.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "data/hdf5.h"
#include "tests/ops/op_reference.h"

namespace convoy::test {

/// One data set: the truth in float64, and how far PyTorch's float32 strays from it.
struct Golden {
    Doubles values;
    double f32_error = 0, f32_relative = 0, norm = 0;  // the last two of gradients only
    bool whole = false;
};

class GoldenFile {
public:
    explicit GoldenFile(const std::string& path) : path_(path), file_(h5::open(path)) {}
    std::string text(const char* name) const { return h5::string_attribute(file_, name, path_); }
    int integer(const char* name) const { return int(h5::int_attribute(file_, name, path_)); }
    double number(const char* name) const { return h5::double_attributes(file_, name, path_).at(0); }
    bool has(const std::string& name) const { return h5::has(file_, name); }
    size_t members(const char* group) const {
        H5G_info_t about{};
        return H5Gget_info_by_name(file_, group, &about, H5P_DEFAULT) < 0 ? 0 : size_t(about.nlinks);
    }
    Golden read(const std::string& name) const {
        const h5::Handle set(H5Dopen2(file_, name.c_str(), H5P_DEFAULT)), space(H5Dget_space(set));
        Golden g;
        g.values.resize(size_t(H5Sget_simple_extent_npoints(space)));
        require(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, g.values.data()) >= 0,
                "a golden file can be read");
        g.f32_error = h5::double_attributes(set, "f32_error", path_).at(0);
        if (H5Aexists(set, "whole") <= 0) return g;
        g.whole = h5::int_attribute(set, "whole", path_) != 0;
        g.f32_relative = h5::double_attributes(set, "f32_relative", path_).at(0);
        g.norm = h5::double_attributes(set, "norm", path_).at(0);
        return g;
    }

private:
    std::string path_;
    h5::Handle file_;
};

inline double length(const Doubles& v) {
    double sum = 0;
    for (const double e : v) sum += e * e;
    return std::sqrt(sum);
}
inline double distance(Doubles a, const Doubles& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
    return length(a);
}
inline double largest(const Doubles& v) {
    double most = 0;
    for (const double e : v) most = std::max(most, std::abs(e));
    return most;
}

/// Mean over the rows of logits [n, classes], in double.
inline double cross_entropy(const Doubles& logits, const std::vector<int32_t>& labels, double smoothing) {
    const size_t classes = logits.size() / labels.size();
    double sum = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
        const double* row = &logits[i * classes];
        double all = 0, of_all = 0;
        for (size_t k = 0; k < classes; ++k) all += std::exp(row[k]), of_all += row[k];
        sum += std::log(all) - (1 - smoothing) * row[labels[i]] - smoothing * of_all / double(classes);
    }
    return sum / double(labels.size());
}

}  // namespace convoy::test
