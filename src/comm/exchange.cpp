#include "comm/exchange.h"

#include <algorithm>
#include <deque>

#include "comm/native.h"

namespace convoy {

struct Exchange::State {
    Comm& comm;
    MPI_Comm own = MPI_COMM_NULL;
    std::deque<std::vector<MPI_Request>> rounds{};  // oldest first
    int exceptions = std::uncaught_exceptions();
};

Exchange::Exchange(Comm& comm) : state_(new State{comm}) { MPI_Comm_dup(comm.native().world, &state_->own); }

// If an exception of this rank alone destroys the object, waiting for other ranks would hang.
Exchange::~Exchange() {
    if (std::uncaught_exceptions() > state_->exceptions) return;
    while (rounds() > 0) finish();
    MPI_Comm_free(&state_->own);
}

void Exchange::start(const std::vector<Message>& receive, const std::vector<Message>& send) {
    std::vector<MPI_Request> round;
    const auto each = [&](const Message& m, auto&& start_part) {
        constexpr size_t most = size_t(1) << 30;  // bytes per call, because MPI counts are int
        for (size_t at = 0; at < m.bytes; at += most)
            start_part(static_cast<char*>(m.data) + at, int(std::min(most, m.bytes - at)), &round.emplace_back());
    };
    for (const Message& m : receive)
        each(m,
             [&](char* to, int bytes, MPI_Request* r) { MPI_Irecv(to, bytes, MPI_BYTE, m.rank, 0, state_->own, r); });
    for (const Message& m : send)
        each(m, [&](const char* from, int bytes, MPI_Request* r) {
            MPI_Isend(from, bytes, MPI_BYTE, m.rank, 0, state_->own, r);
        });
    state_->rounds.push_back(std::move(round));
}

void Exchange::progress() {
    int done = 0;
    for (std::vector<MPI_Request>& round : state_->rounds)
        MPI_Testall(int(round.size()), round.data(), &done, MPI_STATUSES_IGNORE);
}

void Exchange::finish() {
    const Doing doing(state_->comm.activity(), "exchange of a batch between nodes");
    std::vector<MPI_Request>& round = state_->rounds.front();
    MPI_Waitall(int(round.size()), round.data(), MPI_STATUSES_IGNORE);
    state_->rounds.pop_front();
}

size_t Exchange::rounds() const { return state_->rounds.size(); }

}  // namespace convoy
