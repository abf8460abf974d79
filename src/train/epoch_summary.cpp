#include "train/epoch_summary.h"

namespace convoy {

Tally& Tally::operator+=(const Tally& t) {
    images += t.images;
    loss_sum += t.loss_sum;
    correct += t.correct;
    top5 += t.top5;
    return *this;
}

Tally tally_of_all(const StepRecord& r) {
    const auto images = double(r.images);
    return {.images = r.images,
            .loss_sum = r.loss * images,
            .correct = r.accuracy * images,
            .top5 = r.top5_accuracy * images};
}

Tally tally_of_own(const StepRecord& r) {
    return {.images = r.own_images, .loss_sum = r.own.loss_sum, .correct = r.own.correct, .top5 = r.own.top5};
}

void EpochSummary::add(const StepRecord& r) {
    ++steps;
    all += tally_of_all(r);
    own += tally_of_own(r);
    step_seconds += r.step_seconds;
    data_seconds += r.data_seconds;
    comm_exposed_seconds += r.comm_exposed_seconds;
}

}  // namespace convoy
