// Images that a benchmark makes up, where no data set is given.
#pragma once
#include <string>

#include "base/tensor.h"
#include "train/data_set.h"

namespace convoy {

/// What is asked for; zeros: the model's usual.
struct MadeUpImages {
    Shape size{0, 0, 0, 0};  ///< of one image; h 0: the usual
    int64_t classes = 0;
};
/// A training split for `steps` steps: of all their images if these take little memory, else the
/// images come again, in another order.
SplitInfo made_up_split(const std::string& model, const MadeUpImages&, int64_t global_batch, int64_t steps);
/// Its rows. Of many rows, draws 16 MiB and repeats them: a large batch of large images would take
/// minutes to draw.
DataSet::Read made_up_rows(const SplitInfo&, uint64_t seed);
/// "32x32x3"
std::string size_text(const SplitInfo&);

}  // namespace convoy
