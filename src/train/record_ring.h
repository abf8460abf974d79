// The ring of records of the newest steps. The device writes them, and the host reads each before
// it is overwritten.
#pragma once
#include <functional>
#include <vector>

#include "backend/backend.h"

namespace convoy {

class RecordRing {
public:
    /// Allocates the ring. `interval`: number of steps between two reads.
    RecordRing(Backend&, int64_t interval);

    StepRecord* data() const { return static_cast<StepRecord*>(ring_.get()); }  ///< [size()], also on the device
    int64_t size() const { return size_; }
    int64_t interval() const { return interval_; }

    /// Sets the number of steps whose records count as read.
    void begin(int64_t steps);
    /// Returns the number of steps whose records were read.
    int64_t steps_read() const { return read_; }
    /// True if a whole interval was launched since the last call of look(). `launched`: steps so
    /// far.
    bool due(int64_t launched) const { return launched - marked_ >= interval_; }
    /// Waits for the `launched` steps, and returns the records that were not read yet. `late`: only
    /// waits for steps launched before the last call, so that the device always has steps queued.
    /// If one of the records has a request or a skipped step, waits for all launched steps, because
    /// the caller handles both while no step runs.
    std::vector<StepRecord> look(int64_t launched, bool late);

private:
    std::vector<StepRecord> look_once(int64_t launched, bool late);

    TapeRunner& runner_;
    const int64_t interval_, size_;
    const Buffer ring_;
    int64_t read_ = 0;
    int64_t marked_ = 0;  // number of steps that `reached_` waits for, or that were read
    std::function<void()> reached_;
};

}  // namespace convoy
