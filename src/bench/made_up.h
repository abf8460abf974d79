// Synthetic images for benchmarks without a data set.
#pragma once
#include <string>

#include "base/tensor.h"
#include "supply/data_set.h"

namespace convoy {

/// The requested images; zeros select the model's defaults.
struct MadeUpImages {
    Shape size{0, 0, 0, 0};  ///< size of one image; h == 0: the model's default
    int64_t classes = 0;
};
/// Describes a training split for `steps` steps. Each sample has a separate image if these fit in
/// 64 MiB. Otherwise images repeat, in another order each epoch.
SplitInfo made_up_split(const std::string& model, const MadeUpImages&, int64_t global_batch, int64_t steps);
/// Returns a reader of a split's rows. Draws at most 16 MiB per call and repeats them, because
/// drawing a large batch of large images would take minutes.
DataSet::Read made_up_rows(const SplitInfo&, uint64_t seed);
/// Returns the size of an image: "32x32x3".
std::string size_text(const SplitInfo&);

}  // namespace convoy
