// A feed hands batches from the host to steps, one per step, for data sets larger than the device's
// memory. The host claims a buffer, fills it and hands it over. A step reads it as Gather::staged.
//
// Example with `ahead` = 2, so with three host buffers. Batches 0, 1 and 2 are claimed and filled.
// take() gives batch 0 to step 0, which is launched. claim() for batch 3 then reuses the buffer of
// batch 0, so it waits until the device no longer reads that buffer. take() gives batch 1 to step
// 1, and so on.
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
    /// the device if it must. Up to ahead + 1 claims may be outstanding. The newest may reuse the
    /// buffer of the last taken batch, so launch no further step that reads that batch. A buffer
    /// stays valid until a claim after its take() reuses it. The feed grows if it must. Throws
    /// Exit::out_of_memory; the feed is unusable then.
    virtual HostBatch claim(size_t image_bytes) = 0;
    /// Starts the clock of the next step. Time counts as its data_seconds until it has gathered its
    /// batch.
    virtual void begin_step() = 0;
    /// Hands over the oldest claimed batch, which is complete. Steps launched from here on read it.
    virtual void take() = 0;
    /// Drops all claims that were not taken.
    virtual void clear() = 0;
};

}  // namespace convoy
