// The HTML page of `convoy evaluate --report`: one file without references to others.
#pragma once
#include <string>
#include <vector>

#include "data/image_file.h"
#include "report/error_analysis.h"

namespace convoy {

/// The names in a page: of the model, the data set and its classes.
struct MeasuredModel {
    std::string model, data, split;
    std::vector<std::string> class_names;
};

/// A colour of the confusion matrix: white for no image, blue for correct images and red for wrong
/// ones. The larger the share of the label's images, the darker the colour.
struct CellColour {
    uint8_t red, green, blue;
};
CellColour cell_colour(const ErrorAnalysis&, int label, int predicted);

/// Most classes with a whole confusion matrix. With more, files list only the pairs that occurred,
/// and the page has no table of classes.
constexpr int most_classes_of_matrix = 1000;

/// Draws the confusion matrix [label, predicted] with equal squares. A side has at most 480 pixels,
/// or one pixel per class if there are more classes. Call it for at most most_classes_of_matrix.
RgbImage confusion_picture(const ErrorAnalysis&);

/// Returns the page. `pictures[i]` is the picture of mistake i as the bytes of a PNG file; empty if
/// there are no pictures. Names of classes and paths are escaped.
std::string error_page(const ErrorAnalysis&, const MeasuredModel&, const std::vector<std::vector<uint8_t>>& pictures);

}  // namespace convoy
