// The part of NCCL that Convoy calls, for ranks whose devices are emulated: all-reduces are MPI's,
// and each is work of the device like any other. Calls stay in progress for a while, like those of
// a non-blocking communicator. Only when they succeed is their work on its stream, where another
// thread puts it.
#include <mpi.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/bf16.h"
#include "tests/emulated/cuda.h"

struct ncclComm {
    struct Sum {
        const void* from;
        void* to;
        size_t count;
        ncclDataType_t type;
        ncclRedOp_t op;
        cudaStream_t stream;
    };
    MPI_Comm ranks = MPI_COMM_NULL;
    int polls = 0;              // left until the call has succeeded
    std::vector<Sum> called{};  // not on a stream yet
    std::set<cudaStream_t> streams{};
};

namespace {

MPI_Datatype type_of(ncclDataType_t type) {
    switch (type) {
        case ncclDouble: return MPI_DOUBLE;
        case ncclInt64: return MPI_INT64_T;
        case ncclInt32: return MPI_INT32_T;
        default: return MPI_FLOAT;
    }
}

void reduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, MPI_Comm ranks) {
    if (type == ncclBfloat16) {
        std::vector<float> values(count);
        for (size_t i = 0; i < count; ++i) values[i] = convoy::to_float(static_cast<const convoy::bf16*>(from)[i]);
        MPI_Allreduce(MPI_IN_PLACE, values.data(), int(count), MPI_FLOAT, MPI_SUM, ranks);
        for (size_t i = 0; i < count; ++i) convoy::assign(static_cast<convoy::bf16*>(to)[i], values[i]);
        return;
    }
    MPI_Allreduce(from == to ? MPI_IN_PLACE : from, to, int(count), type_of(type), op == ncclMax ? MPI_MAX : MPI_SUM,
                  ranks);
}

/// Plays NCCL's thread: it may load kernels and connect, which a capture may forbid to every
/// thread.
void launch(ncclComm& comm, ncclResult_t& result) {
    if (convoy::test::make_unsafe_call() != cudaSuccess) {
        result = ncclUnhandledCudaError;
        return;
    }
    for (const ncclComm::Sum& s : comm.called)
        convoy::test::put_on_stream(
            s.stream, [s, ranks = comm.ranks] { reduce(s.from, s.to, s.count, s.type, s.op, ranks); }, true);
    result = cudaGetLastError() == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

bool in_group = false;

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) { return *version = 29907, ncclSuccess; }  // 2.99.7, which has no headers
/// Returns the file for the connection log; empty if there is none. Like NCCL, reads the variables
/// on the first call, on rank 0 for an id.
static const std::string& log_file() {
    static const std::string path = [] {
        const char *level = std::getenv("NCCL_DEBUG"), *file = std::getenv("NCCL_DEBUG_FILE");
        return level && file && std::strcmp(level, "INFO") == 0 ? file : "";
    }();
    return path;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    log_file();
    return std::memset(id, 1, sizeof *id), ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "an error"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int, ncclUniqueId id, int, ncclConfig_t* config) {
    if (id.internal[0] != 1 || config->blocking != 0) return ncclInvalidArgument;
    *comm = new ncclComm{MPI_COMM_NULL, 3};
    MPI_Comm_dup(MPI_COMM_WORLD, &(*comm)->ranks);
    return ncclInProgress;
}
/// Logs the transport of EMULATED_TRANSPORT, like NCCL at the first all-reduce.
static void tell_transport() {
    const char* transport = std::getenv("EMULATED_TRANSPORT");
    if (log_file().empty()) return;
    std::FILE* file = std::fopen(log_file().c_str(), "w");
    if (!file) return;
    std::fprintf(file, "host:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via %s\n",
                 transport ? transport : "P2P/CUMEM");
    std::fclose(file);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
    if (comm->polls > 0) --comm->polls;
    *state = comm->polls > 0 ? ncclInProgress : ncclSuccess;
    if (*state != ncclSuccess || comm->called.empty()) return ncclSuccess;
    std::thread([&] { launch(*comm, *state); }).join();
    comm->called.clear();
    return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    for (cudaStream_t stream : comm->streams) cudaStreamSynchronize(stream);
    MPI_Comm_free(&comm->ranks);
    return delete comm, ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclGroupStart() { return in_group = true, ncclSuccess; }
ncclResult_t ncclGroupEnd() { return in_group = false, ncclInProgress; }
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    if (comm->polls > 0 && !in_group) return ncclInvalidUsage;  // the call before has not completed
    const bool sums = type == ncclFloat || type == ncclDouble || type == ncclBfloat16 || type == ncclInt64;
    if (op == ncclSum ? !sums : op != ncclMax || type != ncclInt32) return ncclInvalidArgument;
    if (comm->streams.empty()) tell_transport();
    comm->called.push_back({from, to, count, type, op, stream});
    comm->streams.insert(stream);
    comm->polls = 2;
    return ncclInProgress;
}
ncclResult_t ncclMemAlloc(void** p, size_t bytes) {
    return cudaMalloc(p, bytes) == cudaSuccess ? ncclSuccess : ncclSystemError;
}
ncclResult_t ncclMemFree(void* p) { return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclSystemError; }

}  // extern "C"
