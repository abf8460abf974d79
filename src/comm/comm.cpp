// An MPI error ends the job with one line and exit code 6. Errors of one rank are passed to all.
#include "comm/comm.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <new>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/cpu_quota.h"
#include "base/descriptor.h"
#include "base/folder.h"
#include "base/memory_limits.h"
#include "comm/launcher.h"
#include "comm/native.h"
#include "comm/segments.h"

namespace convoy {
namespace {

void on_mpi_error(MPI_Comm*, int* code, ...) {
    char text[MPI_MAX_ERROR_STRING] = "", host[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0, rank = 0;
    MPI_Error_string(*code, text, &length);
    MPI_Get_processor_name(host, &length);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(stderr,
                 "convoy: rank %d on %s: communication failed: %s; another rank or the link to it may be gone\n", rank,
                 host, text);
    MPI_Abort(MPI_COMM_WORLD, int(Exit::comm));
}

/// Removes the names of OpenMPI's segments, so that a job killed from now on leaves no segment in
/// /dev/shm. Does nothing unless each rank maps one segment per rank of the node (not so with UCX).
void leave_no_segments(Comm::Native& n) {
    std::vector<std::string> segments = mapped_segments();
    int all_mapped = segments.size() == size_t(n.local_size);
    MPI_Allreduce(MPI_IN_PLACE, &all_mapped, 1, MPI_INT, MPI_MIN, n.node);
    if (!all_mapped) return;
    if (n.local_rank == 0) {
        remove_names(segments);
        n.segments = std::move(segments);
    }
}

}  // namespace

/// Sets the communicators of the ranks of `world`, and this rank's place in them.
static void set_communicators(Comm::Native& n, MPI_Comm world) {
    n.world = world;
    MPI_Comm_dup(world, &n.gradients);
    MPI_Comm_rank(n.world, &n.rank);
    MPI_Comm_size(n.world, &n.size);
    MPI_Comm_split_type(n.world, MPI_COMM_TYPE_SHARED, n.rank, MPI_INFO_NULL, &n.node);
    MPI_Comm_rank(n.node, &n.local_rank);
    MPI_Comm_size(n.node, &n.local_size);
    MPI_Comm_split(n.world, n.local_rank == 0 ? 0 : MPI_UNDEFINED, n.rank, &n.leaders);
}

Comm::Comm() : native_(std::make_unique<Native>()) {}

Comm::Comm(int* argc, char*** argv) : Comm() {
    Native& n = *native_;
    activity_ = std::make_shared<Activity>();
    n.segment_folder = std::make_shared<SegmentFolder>();
    int provided = 0;
    {
        const SingleProcess single;
        n.folder = single.folder();
        // UCX reads ./ucx.conf when it is loaded, and another user may have put one there.
        const Descriptor here(open_current_folder());
        if (!here.valid() || ::chdir("/") != 0)
            fail(Exit::io, "the current folder cannot be entered; start in a folder of yours");
        MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
        starts_mpi_ = true;
        if (::fchdir(here.fd()) != 0) {  // relative paths would lead to other files
            std::perror("convoy: the current folder cannot be entered; start in a folder of yours");
            MPI_Abort(MPI_COMM_WORLD, int(Exit::io));
        }
    }
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(on_mpi_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);  // communicators made from it inherit the handler
    MPI_Errhandler_free(&handler);
    MPI_Comm world = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    set_communicators(n, world);
    std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
    int length = 0;
    MPI_Get_processor_name(name.data(), &length);
    n.host.assign(name.data(), length);
    leave_no_segments(n);
}

std::unique_ptr<Comm> Comm::split(int group) {
    const Doing doing(*activity_, "split into groups of ranks");
    std::unique_ptr<Comm> part(new Comm());
    MPI_Comm world = MPI_COMM_NULL;
    MPI_Comm_split(native_->world, group, native_->rank, &world);
    set_communicators(*part->native_, world);
    part->native_->host = native_->host;
    part->native_->segment_folder = native_->segment_folder;
    part->activity_ = activity_;
    return part;
}

Comm::~Comm() {
    if (starts_mpi_) {
        if (native_->local_rank == 0) restore_names(native_->segments);
        MPI_Barrier(native_->node);  // because MPI_Finalize of any rank may look for its segment's name
    }
    for (MPI_Comm* c : {&native_->leaders, &native_->node, &native_->gradients, &native_->world})
        if (*c != MPI_COMM_NULL) MPI_Comm_free(c);
    if (!starts_mpi_) return;
    MPI_Finalize();
    if (!native_->folder) return;
    [[maybe_unused]] const std::error_code ignored = native_->folder->remove();
}

int Comm::rank() const { return native_->rank; }
int Comm::size() const { return native_->size; }
int Comm::local_rank() const { return native_->local_rank; }
int Comm::local_size() const { return native_->local_size; }
const std::string& Comm::host() const { return native_->host; }

void Comm::barrier() {
    const Doing doing(*activity_, "barrier");
    MPI_Barrier(native_->world);
}

void Comm::wait_for_all() {
    const Doing doing(*activity_, "barrier");
    MPI_Request all = MPI_REQUEST_NULL;
    MPI_Ibarrier(native_->world, &all);
    for (int done = 0; MPI_Test(&all, &done, MPI_STATUS_IGNORE), !done;)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

namespace {
int64_t reduced(Activity& activity, int64_t value, MPI_Op op, MPI_Comm comm) {
    const Doing doing(activity, "sum or maximum of one number");
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, op, comm);
    return value;
}
}  // namespace

void broadcast_bytes(void* data, size_t bytes, int from, MPI_Comm comm) {
    constexpr size_t most = size_t(1) << 30;  // MPI counts are int
    for (size_t at = 0; at < bytes; at += most)
        MPI_Bcast(static_cast<char*>(data) + at, int(std::min(most, bytes - at)), MPI_BYTE, from, comm);
}

void Comm::broadcast(void* data, size_t bytes, int from) {
    const Doing doing(*activity_, "broadcast");
    broadcast_bytes(data, bytes, from, native_->world);
}

std::string Comm::broadcast(const std::string& text, int from) {
    int64_t length = int64_t(text.size());
    broadcast(&length, sizeof length, from);
    std::string result = text;
    result.resize(size_t(length));
    broadcast(result.data(), size_t(length), from);
    return result;
}

int64_t Comm::sum(int64_t v) { return reduced(*activity_, v, MPI_SUM, native_->world); }
int64_t Comm::max(int64_t v) { return reduced(*activity_, v, MPI_MAX, native_->world); }

void Comm::average(std::vector<float>& values) {
    const Doing doing(*activity_, "average over all ranks");
    std::vector<double> sums(values.begin(), values.end());  // in double the mean of equal floats is that float
    MPI_Allreduce(MPI_IN_PLACE, sums.data(), int(sums.size()), MPI_DOUBLE, MPI_SUM, native_->world);
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(sums[i] / size());
}

std::vector<float> Comm::gather(const std::vector<float>& mine) {
    const Doing doing(*activity_, "gather on rank 0");
    std::vector<float> all(root() ? mine.size() * size_t(size()) : 0);
    MPI_Gather(mine.data(), int(mine.size()), MPI_FLOAT, all.data(), int(mine.size()), MPI_FLOAT, 0, native_->world);
    return all;
}

std::vector<double> Comm::gather_all(const std::vector<double>& row) {
    const Doing doing(*activity_, "gather on all ranks");
    std::vector<double> all(row.size() * size());
    MPI_Allgather(row.data(), int(row.size()), MPI_DOUBLE, all.data(), int(row.size()), MPI_DOUBLE, native_->world);
    return all;
}

namespace {
std::vector<std::string> gathered(const std::string& text, MPI_Comm comm) {
    int ranks = 0;
    MPI_Comm_size(comm, &ranks);
    int64_t width = int64_t(text.size()) + 1;
    MPI_Allreduce(MPI_IN_PLACE, &width, 1, MPI_INT64_T, MPI_MAX, comm);
    std::vector<char> mine(width, '\0'), all(width * ranks);
    std::copy(text.begin(), text.end(), mine.begin());
    MPI_Allgather(mine.data(), int(width), MPI_CHAR, all.data(), int(width), MPI_CHAR, comm);
    std::vector<std::string> rows;
    for (int r = 0; r < ranks; ++r) rows.emplace_back(all.data() + r * width);
    return rows;
}
}  // namespace

std::vector<std::string> Comm::gather_all(const std::string& text) {
    const Doing doing(*activity_, "gather on all ranks");
    return gathered(text, native_->world);
}

std::vector<std::string> Comm::gather_node(const std::string& text) {
    const Doing doing(*activity_, "gather on the ranks of a node");
    return gathered(text, native_->node);
}

namespace {

/// Returns true if the error means too little memory, or too little address space for a thread.
bool is_out_of_memory(const std::exception& error) {
    if (dynamic_cast<const std::bad_alloc*>(&error)) return true;
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    return system && (system->code() == std::errc::resource_unavailable_try_again ||
                      system->code() == std::errc::not_enough_memory);
}

/// Returns the message for the user, with the limit that has the least memory left and advice.
std::string out_of_memory_message() try {
    const std::vector<MemoryLimit> limits = memory_limits();
    const auto least =
        std::min_element(limits.begin(), limits.end(), [](const auto& a, const auto& b) { return a.left < b.left; });
    if (least == limits.end()) return out_of_host_memory;
    return "out of memory on the host; the narrowest limit is " + least->name +
           "; use a smaller batch or data set, or fewer ranks per node" +
           (least->remedy.empty() ? "" : ", or " + least->remedy);
} catch (const std::bad_alloc&) {
    return out_of_host_memory;
}

}  // namespace

void Comm::together(const std::function<void()>& work) {
    int64_t code = 0;
    std::string message;
    try {
        work();
    } catch (const Error& error) {
        code = int64_t(error.code);
        message = error.what();
    } catch (const std::filesystem::filesystem_error& error) {
        code = int64_t(Exit::io);
        message = error_at_path(error).what();
    } catch (const std::exception& error) {
        if (!is_out_of_memory(error)) throw;
        code = int64_t(Exit::out_of_memory);
        message = out_of_memory_message();
    }
    const int64_t lowest = -max(code ? -int64_t(rank()) : INT64_MIN + 1);
    if (lowest == INT64_MAX) return;
    broadcast(&code, sizeof code, int(lowest));
    fail_everywhere(Exit(code), broadcast(message, int(lowest)));
}

void Comm::or_abort(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        if (!error.everywhere) abort(error.code, error.what());
        throw;
    } catch (const std::filesystem::filesystem_error& error) {
        abort(Exit::io, error_at_path(error).what());
    } catch (const std::exception& error) {
        if (is_out_of_memory(error)) abort(Exit::out_of_memory, out_of_memory_message());
        abort(Exit(1), error.what());
    }
}

namespace {

/// Returns the sum of this rank's parts of cores; ranks bound to a core have equal parts of it.
double fair_cores(MPI_Comm node, int ranks) {
    cpu_set_t mine;
    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) CPU_SET(0, &mine);
    std::vector<cpu_set_t> all(static_cast<size_t>(ranks));
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, node);
    // 1/360360 of a core: parts of up to 15 ranks are whole numbers and add up without rounding.
    constexpr int64_t unit = 360360;
    int64_t share = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &mine))
            share += unit /
                     std::count_if(all.begin(), all.end(), [&](const cpu_set_t& set) { return CPU_ISSET(cpu, &set); });
    return double(share) / unit;
}

}  // namespace

int Comm::fair_threads(std::string* why) {
    const double cores = fair_cores(native_->node, local_size());
    const std::vector<CpuQuota> quotas = cpu_quotas();
    std::ostringstream mine;
    for (const CpuQuota& quota : quotas) mine << quota.group << '\n';
    std::vector<std::string> groups;
    for (const std::string& text : gather_node(mine.str())) {
        std::istringstream in(text);
        for (std::string group; std::getline(in, group);) groups.push_back(group);
    }
    const std::optional<CpuShare> share = share_of_quotas(quotas, groups);
    if (why) *why = is_narrower(share, cores) ? share->why : "";
    return threads_for(cores, share);
}

void Comm::abort(Exit code, const std::string& message) {
    // Several ranks may fail at about the same time, for example because a file is missing. Higher
    // ranks wait here, so that the lowest one prints its message and ends them.
    const int milliseconds = rank() == 0 ? 0 : 250 + 50 * std::min(rank(), 10);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    std::fprintf(stderr, "convoy: rank %d on %s: %s\n", rank(), host().c_str(), printable(message).c_str());
    std::fflush(nullptr);
    native_->segment_folder->remove();
    MPI_Abort(MPI_COMM_WORLD, int(code));
    std::abort();  // not reached, because MPI_Abort does not return; tells the compiler so
}

std::string mpi_version() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string whole(text, size_t(length));
    return whole.substr(0, whole.find(','));
}

}  // namespace convoy
