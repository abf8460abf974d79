// The output of 'convoy classify': a line per image on stdout, and an HDF5 file.
#pragma once
#include <string>
#include <vector>

#include "base/durable.h"

namespace convoy {

struct Prediction {
    std::string image;            ///< its path, or its index in the split
    std::string fault{};          ///< says why there are no logits; else empty
    std::vector<float> logits{};  ///< [classes]
    int label = -1;               ///< class in the data set; -1: unknown
};

struct RankedClass {
    int index;
    double probability;
};
/// Returns the `most` most probable classes, best first. If logits are equal, the lower index comes
/// first.
std::vector<RankedClass> ranked(const std::vector<float>& logits, int most);

/// Prints predictions, one after the other.
class PredictionPrinter {
public:
    enum class Format { text, csv, json };
    PredictionPrinter(Format, std::vector<std::string> class_names, int most, bool has_labels);

    void begin(const std::string& model) const;
    void add(const Prediction&);
    void end() const;

private:
    std::string name_of(int index) const { return class_names_[index]; }
    std::string as_line(const Prediction&) const;
    std::string as_row(const Prediction&) const;
    std::string as_json(const Prediction&) const;

    const Format format_;
    std::vector<std::string> class_names_;
    const int most_;
    const bool has_labels_;
    bool first_ = true;
};

/// Writes an HDF5 file with a row for each image: /logits f32 [n, classes], NaN where there are
/// none; /prediction and /label i32 [n], -1 where there is none; /image and /fault, UTF-8 strings
/// [n], cut at 1,024 bytes, or at fewer if all would take more than 256 MiB. Root attributes:
/// class_names, model. Throws Exit::io.
void write_predictions(const HeldPlace& to, const std::vector<Prediction>&, const std::vector<std::string>& class_names,
                       const std::string& model, IfThere);

}  // namespace convoy
