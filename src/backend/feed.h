// A feed hands batches from the host to steps, one per step, for data sets larger than the device's
// memory. The host claims a buffer, fills it and hands it over. A step reads it as Gather::staged.
//
// Example: batches of 4 images [8, 8, 3] in u8, and `ahead` = 2, so three host buffers A, B and C.
// Each has 1,024 bytes: places at 0, labels at 64, samples at 80, images at 256 (feed_slots.h).
// This is what Supply::next() and the trainer do:
//
//   next step  claim() and fill                take()              then launched
//   0          batch 0 in A, batch 1 in B      batch 0 from A
//              batch 2 in C                                        step 0
//   1                                          batch 1 from B
//              batch 3 in A                                        step 1
//   2                                          batch 2 from C
//              batch 4 in B                                        step 2
//
// On CPUs a step reads A itself. Step 0 has ended when its launch returns, so claim() of batch 3
// never waits. A GPU has two more blocks, D0 and D1, in its memory. take() starts the upload of A
// to D1, later of B to D0 and of C to D1. The third upload waits, on the GPU, until step 0 no
// longer reads D1. claim() of batch 3 blocks the host only until the upload from A has ended; step
// 0 may still run.
#pragma once
#include <cstddef>

#include "ops/records.h"

namespace convoy {

/// The buffer into which the host writes a batch, in the form that StagedBatch describes. `images`
/// is aligned to 64 bytes and has the claimed size. The other arrays have an element per row of the
/// feed.
struct HostBatch {
    uint8_t* images;
    int32_t *labels, *samples;
    ImagePlace* places;
};

/// Hands batches from the host to steps. The thread that launches steps calls its functions; other
/// threads may fill a claimed batch. Must not outlive its backend.
class Feed {
public:
    virtual ~Feed() = default;
    /// Returns the taken batch on the device, always at the same address, for Gather::staged.
    virtual const StagedBatch* batch() const = 0;
    /// Returns true if claim() would not wait for the device.
    virtual bool ready() = 0;
    /// Returns a host buffer for the next batch, with room for `image_bytes` of images. Waits for
    /// the device if it must. The ahead + 1 buffers are used in turn, so that batch 3 gets the
    /// buffer of batch 0 if `ahead` is 2. Take batch 0 and launch the step that reads it before.
    /// Grows the buffer if it must. Throws Exit::out_of_memory; the feed is then unusable.
    virtual HostBatch claim(size_t image_bytes) = 0;
    /// Starts to time the next step. Its data_seconds end when it has gathered its batch.
    virtual void begin_step() = 0;
    /// Hands over the oldest claimed batch, which is complete. Steps launched from here on read it.
    virtual void take() = 0;
    /// Drops all claims that were not taken.
    virtual void clear() = 0;
};

}  // namespace convoy
