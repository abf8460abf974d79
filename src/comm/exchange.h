// Messages of bytes between ranks that travel while steps run. Both sides know what comes: nothing
// but the bytes is sent. On a communicator of its own, so that it never meets another collective.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "comm/comm.h"

namespace convoy {

class Exchange {
public:
    explicit Exchange(Comm&);  ///< collective
    ~Exchange();               ///< collective, except when an exception destroys it
    Exchange(const Exchange&) = delete;

    /// One message: to or from a rank. Its memory stays as it is until the round has finished.
    struct Message {
        int rank;
        void* data;
        size_t bytes;
    };
    /// Starts a round. Of two ranks' rounds, those match that each started as its n-th; what one
    /// sends to the other in it, the other receives.
    void start(const std::vector<Message>& receive, const std::vector<Message>& send);
    /// Moves rounds on, without waiting.
    void progress();
    /// Waits for the oldest round.
    void finish();
    /// Rounds that were started and not finished.
    size_t rounds() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace convoy
