// Batches that the host supplies to steps, one for each: of data sets larger than the device's
// memory. The host claims room, fills it, and hands it over; a step gathers it as Gather::staged.
#pragma once
#include <cstddef>

#include "backend/records.h"

namespace convoy {

/// Where the host writes a batch; to be filled as StagedBatch says. images is aligned to 64 bytes,
/// and has as many as were claimed; the others have an element for each row of the feed.
struct HostBatch {
    uint8_t* images;
    int32_t *labels, *samples;
    ImagePlace* places;
};

/// Hands batches from the host to steps. Used by the thread that launches steps; a claimed batch
/// may be filled by others. Must not outlive its backend.
class Feed {
public:
    virtual ~Feed() = default;
    /// On the device, at one address throughout: for Gather::staged.
    virtual const StagedBatch* batch() const = 0;
    /// Whether claim() will not wait for the device.
    virtual bool ready() = 0;
    /// Room on the host for a batch of so many bytes of images, after those claimed before. At most
    /// `ahead` + 1 are claimed at a time: the last of these may take the room of the batch that was
    /// taken last, so that no step is to be launched that reads it. Stays where it is until the
    /// claim after its take() that reuses it. Grows if it must. Throws Exit::out_of_memory; the
    /// feed is of no use then.
    virtual HostBatch claim(size_t image_bytes) = 0;
    /// The time from here on is the next step's, and counts as its data_seconds until it has
    /// gathered its batch.
    virtual void begin_step() = 0;
    /// The oldest claimed batch is complete: steps that are launched from here on read it.
    virtual void take() = 0;
    /// Forgets what is claimed and not taken.
    virtual void clear() = 0;
};

}  // namespace convoy
