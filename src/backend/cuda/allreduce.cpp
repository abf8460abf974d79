// All-reduces of gradients on the tape. Each starts on the communication stream after its bucket's
// last gradient; the optimizer waits for all of them.
#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/transport.h"
#include "backend/gpu/all_reduces.h"
#include "comm/comm.h"
#include "comm/network.h"

namespace convoy::cuda {
namespace {

LaunchId all_reduce(size_t bytes) {
    return named_launch(LaunchPhase::all_reduce, "all-reduce " + std::to_string(bytes >> 10) + " KiB");
}

}  // namespace

void CudaBackend::connect() {
    if (comm_.size() == 1) return;
    if (options_.share_device)
        all_reduce_ = all_reduce_through_host(comm_, compute_.get());
    else
        all_reduce_ = connect_by_nccl(comm_, compute_.get(), options_.sync_bn ? compute_.get() : communication_.get(),
                                      options_.bf16_gradients, *this);
    look_at_links();
}

void CudaBackend::look_at_links() {
    std::string mine;
    for (const std::string& name : all_reduce_->transports()) mine += name + "\n";
    const std::string verbs = verbs_ports(), warning = socket_warning(mine, verbs);
    const std::vector<std::string> hosts = comm_.gather_all(comm_.host()),
                                   warnings = comm_.gather_all(warning.empty() ? "" : comm_.host() + ": " + warning);
    const bool several_hosts = std::set<std::string>(hosts.begin(), hosts.end()).size() > 1;
    const bool sockets = mine.find("NET/Socket") != std::string::npos;
    const bool all_use_verbs = comm_.max(verbs.empty() || sockets) == 0,
               all_have_nvlink = comm_.max(nvml_.nvlinks() == 0) == 0;
    facts_.bucket_bytes = bucket_bytes_of(several_hosts, all_have_nvlink, all_use_verbs);
    std::set<std::string> names;
    for (const std::string& ranks : comm_.gather_all(mine)) {
        std::istringstream lines(ranks);
        for (std::string name; std::getline(lines, name);) names.insert(name);
    }
    facts_.transport = options_.share_device ? "MPI" : "NCCL";
    for (const std::string& name : names) facts_.transport += (name == *names.begin() ? " over " : ", ") + name;
    const auto first = std::find_if(warnings.begin(), warnings.end(), [](const auto& w) { return !w.empty(); });
    if (comm_.root() && first != warnings.end()) std::fprintf(stderr, "warning: %s\n", first->c_str());
}

void CudaBackend::allreduce(Tensor bucket, size_t counts, Tape& tape) {
    if (!all_reduce_) return;
    tape.push_back(
        {all_reduce(bucket.bytes()), Resource::communication,
         [this, data = bucket.as<float>(), n = bucket.count(), counts] { all_reduce_->start(data, n, counts); }});
}

void CudaBackend::allreduce_into(Tensor from, Tensor to, Tape& tape) {
    if (!all_reduce_) return add_scaled(from, 1, to, false, tape);
    tape.push_back({all_reduce(to.bytes()), Resource::communication,
                    [this, from = from.as<float>(), data = to.as<float>(), n = to.count()] {
                        all_reduce_->start_into(from, data, n);
                    }});
}

void CudaBackend::wait_allreduce(Tape& tape) {
    if (!all_reduce_) return;
    auto* times = static_cast<kernels::StepTimes*>(times_.get());
    append(tape, named_launch(LaunchPhase::all_reduce, "wait for all-reduce"), [=, this](cudaStream_t s) {
        kernels::mark(&times->wait_began, s);
        all_reduce_->wait();
        kernels::mark(&times->wait_ended, s);
    });
}

}  // namespace convoy::cuda
