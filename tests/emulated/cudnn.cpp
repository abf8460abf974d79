// cuDNN's plans for the emulated device. A spec has three candidates: one that cannot be built, one
// that is built and cannot run, and one that computes the spec with loops. A plan takes exactly the
// operands of its kind.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <stdexcept>
#include <thread>

#include "backend/cuda/cudnn_graph.h"
#include "tests/emulated/cuda.h"
#include "tests/emulated/plan_loops.h"
#include "tests/kernels/fibers/grid.h"

#include <cudnn.h>

size_t cudnnGetVersion() { return 0; }  // callers use this address to find the library's file

namespace convoy::cuda {

struct Cudnn::Native {
    mutable std::atomic<int> users = 0;  // threads that build with this handle
};
Cudnn::Cudnn() : native_(std::make_unique<Native>()) {}
Cudnn::Cudnn(cudaStream_t) : Cudnn() {}
Cudnn::~Cudnn() = default;
Cudnn::Cudnn(Cudnn&&) noexcept = default;
Cudnn Cudnn::of_chip(const std::string&) { throw std::logic_error("the emulated device is of no chip"); }
std::string Cudnn::description(int device) {
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, device);
    return "{\"deviceName\":\"" + std::string(p.name) + "\",\"totalGlobalMem\":" + std::to_string(p.totalGlobalMem) +
           "}";
}
std::string Cudnn::version() { return "emulated"; }

struct CudnnGraph::Native {
    PlanSpec spec;
    const Cudnn* builds;  // null: built with the device's properties
    int device;
    std::string reason;
};

namespace {

int current_device() {
    int index = 0;
    return cudaGetDevice(&index), index;
}
/// Returns true if EMULATED_CUDNN names this property.
bool cudnn_is(const char* what) {
    const char* said = std::getenv("EMULATED_CUDNN");
    return said && std::strcmp(said, what) == 0;
}

}  // namespace

CudnnGraph::CudnnGraph(const Cudnn&, const PlanSpec& spec, const Cudnn* builds)
    : native_(new Native{spec, builds, current_device(), ""}) {
    if (!builds && cudnn_is("out-of-memory")) throw std::bad_alloc();
}
CudnnGraph::~CudnnGraph() = default;
int CudnnGraph::candidates() const { return 3; }
const std::string& CudnnGraph::reason() const { return native_->reason; }
std::string CudnnGraph::name(int candidate) const {
    return std::array{"unbuilt", "broken", "loops"}[size_t(candidate)];
}
bool CudnnGraph::compiles(int) const { return false; }
bool CudnnGraph::build(int candidate, std::string& why) {
    std::atomic<int> unused = 0, &users = native_->builds ? native_->builds->native().users : unused;
    if (users++ > 0) throw std::logic_error("two threads use one handle of cuDNN");
    const std::shared_ptr<void> leave(nullptr, [&](void*) { --users; });
    if (const char* seconds = std::getenv("EMULATED_BUILD_SECONDS"))  // simulates compilation for the device
        std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(seconds)));
    if (candidate == 0) why = "it is not to be built";
    return candidate > 0;
}
size_t CudnnGraph::workspace(int) const { return 64; }
void CudnnGraph::run(int candidate, const std::vector<std::pair<Slot, void*>>& given, void* workspace,
                     cudaStream_t stream) const {
    const char* fatal = std::getenv("EMULATED_FATAL_PLAN");
    if (candidate == 1 && fatal && native_->spec.key().find(fatal) != std::string::npos) std::raise(SIGKILL);
    if (candidate != 2) throw std::runtime_error("this plan cannot run");
    if (native_->device != current_device()) throw std::runtime_error("this plan is of another device");
    if (!native_->builds && cudnn_is("bound-to-handles")) throw std::runtime_error("this plan is of another handle");
    std::vector<Slot> wanted = operands_of(native_->spec), got;
    std::map<Slot, void*> operands;
    for (const auto& [slot, data] : given) {
        got.push_back(slot);
        operands[slot] = data;
        if (!data) throw std::runtime_error("an operand of " + native_->spec.key() + " is nowhere");
    }
    std::sort(wanted.begin(), wanted.end()), std::sort(got.begin(), got.end());
    if (wanted != got) throw std::runtime_error("the operands of " + native_->spec.key() + " are not those it takes");
    if (const char* seconds = std::getenv("EMULATED_RUN_SECONDS"))
        test::put_on_stream(stream, [ns = 1e9 * std::atof(seconds)] { test::let_device_time_pass(uint64_t(ns)); });
    constexpr double products_of_a_thread = 1024;
    const PlanSpec& s = native_->spec;
    if (test::is_left_out(double(s.x.count()) * s.y.c * s.kernel * s.kernel / products_of_a_thread)) return;
    const char* wrong = std::getenv("EMULATED_WRONG_PLAN");
    const bool is_wrong = wrong && s.key().find(wrong) != std::string::npos;
    test::put_on_stream(stream, [spec = native_->spec, operands, workspace, is_wrong] {
        std::memset(workspace, 0xff, 64);
        test::run_by_loops(spec, operands);
        constexpr unsigned char sign = 0x80;
        for (const Slot slot : {Slot::y, Slot::dx, Slot::dweight})
            if (is_wrong && operands.contains(slot))
                static_cast<unsigned char*>(operands.at(slot))[size_of(spec.type) - 1] ^= sign;
    });
}

}  // namespace convoy::cuda
