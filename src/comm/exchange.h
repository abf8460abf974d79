// Messages between ranks that overlap with steps. Both sides know the sizes, so only the bytes are
// sent. A separate communicator keeps them apart from other messages and collectives.
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

    /// A message to or from a rank. Its memory must stay valid and unchanged until the round has
    /// finished.
    struct Message {
        int rank;
        void* data;
        size_t bytes;
    };
    /// Starts a round of messages. The n-th round of a rank matches the n-th rounds of the other
    /// ranks, so in each round a rank must receive exactly what the others send to it.
    void start(const std::vector<Message>& receive, const std::vector<Message>& send);
    /// Lets MPI make progress on the rounds in flight, without blocking.
    void progress();
    /// Blocks until the oldest round has finished.
    void finish();
    /// Returns the number of rounds in flight.
    size_t rounds() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace convoy
