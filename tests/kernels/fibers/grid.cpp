#include "tests/kernels/fibers/cuda_on_host.h"  // must come first: it changes CUDA's headers

#include <algorithm>
#include <atomic>
#include <boost/context/fiber.hpp>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace convoy::test {
namespace {

namespace context = boost::context;

/// A stack as reported to the address sanitizer before and after every switch; without the
/// sanitizer it does nothing.
struct Stack {
    const void* bottom = nullptr;
    size_t size = 0;
    void* hidden = nullptr;  // the sanitizer's data of a stack that does not run

    void leave_for([[maybe_unused]] const Stack& other, [[maybe_unused]] bool forever = false) {
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_start_switch_fiber(forever ? nullptr : &hidden, other.bottom, other.size);
#endif
    }
    void arrive([[maybe_unused]] Stack* from = nullptr) {
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(hidden, from ? &from->bottom : nullptr, from ? &from->size : nullptr);
#endif
    }
};

/// Thrown in a waiting thread of a grid that has failed, to unwind its stack.
struct Stop {};

class Grid {
public:
    Grid(dim3 block, size_t shared_bytes, const std::function<void()>& body);
    void run(dim3 grid, std::mt19937&, Order);

    void wait(unsigned mask, std::source_location at);  // mask 0: the block
    uint64_t exchange(unsigned mask, uint64_t value, int source, std::source_location at);
    int lane() const { return current_ % 32; }
    void* shared() { return shared_.get(); }

private:
    enum class State { ready, waiting, done };
    struct Thread {
        uint3 index{};
        State state = State::done;
        unsigned mask = 0;
        std::source_location at;
        uint64_t given = 0;  // value of this thread in an exchange
        context::fiber fiber;
        Stack stack;
    };

    void start(Thread&);
    void resume(int thread);
    void run_block(std::mt19937&, Order);
    bool release();
    bool release(int first, int last, unsigned mask, std::source_location at);
    void stop();
    [[noreturn]] void fail(const std::string& what, int thread) const;

    const std::function<void()>& body_;
    dim3 block_;
    size_t shared_bytes_;
    std::unique_ptr<unsigned char[]> shared_;
    std::vector<Thread> threads_;
    int current_ = 0;
    context::fiber scheduler_;
    Stack scheduler_stack_;
    std::exception_ptr error_;
    bool stopping_ = false;
};

constexpr size_t stack_bytes = size_t(64) << 10;

/// Returns the stack memory of the i-th thread, which all grids share.
char* stack_memory(size_t i) {
    static std::vector<std::unique_ptr<char[]>> all;
    while (all.size() <= i) all.emplace_back(new char[stack_bytes]);
    return all[i].get();
}
struct KeepStack {
    void deallocate(context::stack_context&) const {}
};

Grid* running = nullptr;
Order order = Order::forward;
std::atomic<uint64_t> clock_now = 1'000'000'000;

Grid::Grid(dim3 block, size_t shared_bytes, const std::function<void()>& body)
    : body_(body), block_(block), shared_bytes_(shared_bytes) {
    threads_.resize(size_t(block.x) * block.y * block.z);
    for (size_t i = 0; i < threads_.size(); ++i)
        threads_[i].index = {unsigned(i % block.x), unsigned(i / block.x % block.y), unsigned(i / block.x / block.y)};
}

void Grid::fail(const std::string& what, int thread) const {
    const Thread& t = threads_[thread];
    throw std::runtime_error(what + ": block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) +
                             "), thread (" + std::to_string(t.index.x) + ", " + std::to_string(t.index.y) + ") at " +
                             t.at.file_name() + ":" + std::to_string(t.at.line()));
}

void Grid::start(Thread& t) {
    char* bottom = stack_memory(size_t(&t - threads_.data()));
    context::stack_context memory;
    memory.size = stack_bytes;
    memory.sp = bottom + stack_bytes;
    t.stack = {bottom, stack_bytes, nullptr};
    t.state = State::ready;
    t.fiber = context::fiber(std::allocator_arg, context::preallocated(memory.sp, memory.size, memory), KeepStack(),
                             [this, &t](context::fiber&& scheduler) {
                                 t.stack.arrive(&scheduler_stack_);
                                 scheduler_ = std::move(scheduler);
                                 try {
                                     if (!stopping_) body_();
                                 } catch (const Stop&) {
                                 } catch (...) {
                                     if (!error_) error_ = std::current_exception();
                                 }
                                 t.state = State::done;
                                 t.stack.leave_for(scheduler_stack_, true);
                                 return std::move(scheduler_);
                             });
}

void Grid::resume(int thread) {
    current_ = thread;
    Thread& t = threads_[thread];
    threadIdx = t.index;
    scheduler_stack_.leave_for(t.stack);
    t.fiber = std::move(t.fiber).resume();
    scheduler_stack_.arrive();
}

void Grid::wait(unsigned mask, std::source_location at) {
    Thread& t = threads_[current_];
    t.state = State::waiting;
    t.mask = mask;
    t.at = at;
    if (mask != 0 && !(mask >> lane() & 1)) fail("a thread waits with a mask that leaves it out", current_);
    t.stack.leave_for(scheduler_stack_);
    scheduler_ = std::move(scheduler_).resume();
    t.stack.arrive(&scheduler_stack_);
    if (stopping_) throw Stop();
}

uint64_t Grid::exchange(unsigned mask, uint64_t value, int source, std::source_location at) {
    threads_[current_].given = value;
    wait(mask, at);
    if (!(mask >> source & 1)) fail("a lane reads from one that takes no part", current_);
    const uint64_t taken = threads_[current_ / 32 * 32 + source].given;
    wait(mask, at);  // until all lanes have read their value
    return taken;
}

/// Resumes the threads in [first, last) if all wait with this mask at this place. Returns true if
/// it did.
bool Grid::release(int first, int last, unsigned mask, std::source_location at) {
    const auto takes_part = [&](int i) { return mask == 0 || (mask >> (i % 32) & 1); };
    for (int i = first; i < last; ++i) {
        if (!takes_part(i)) continue;
        if (i >= int(threads_.size())) fail("a mask names lanes that the block does not have", first);
        const Thread& t = threads_[i];
        if (t.state == State::done || t.mask != mask) return false;
        if (t.at.line() != at.line() || std::string(t.at.file_name()) != at.file_name()) return false;
    }
    for (int i = first; i < last; ++i)
        if (takes_part(i)) threads_[i].state = State::ready;
    return true;
}

/// Called when no thread can run: resumes threads whose barrier is complete. Returns false if there
/// are none.
bool Grid::release() {
    bool any = false;
    for (int i = 0; i < int(threads_.size()); ++i) {
        const Thread& t = threads_[i];
        if (t.state != State::waiting) continue;
        any |= t.mask == 0 ? release(0, int(threads_.size()), 0, t.at)
                           : release(i / 32 * 32, i / 32 * 32 + 32, t.mask, t.at);
    }
    return any;
}

void Grid::run_block(std::mt19937& random, Order order_now) {
    shared_.reset(new unsigned char[std::max<size_t>(shared_bytes_, 1)]);
    std::fill_n(shared_.get(), shared_bytes_, 0xff);
    std::vector<int> turn(threads_.size());
    std::iota(turn.begin(), turn.end(), 0);
    if (order_now == Order::reversed) std::reverse(turn.begin(), turn.end());
    for (Thread& t : threads_) start(t);
    do {
        if (order_now == Order::shuffled) std::shuffle(turn.begin(), turn.end(), random);
        for (int i : turn)
            if (threads_[i].state == State::ready && !error_) resume(i);
        if (error_) std::rethrow_exception(error_);
    } while (release());
    for (int i : turn)
        if (threads_[i].state != State::done) fail("a barrier is not reached by all", i);
}

/// Unwinds the threads that still wait.
void Grid::stop() {
    stopping_ = true;
    for (int i = 0; i < int(threads_.size()); ++i)
        if (threads_[i].fiber) resume(i);
}

void Grid::run(dim3 grid, std::mt19937& random, Order order_now) {
    const int blocks = int(grid.x * grid.y);
    std::vector<int> turn(static_cast<size_t>(blocks));
    std::iota(turn.begin(), turn.end(), 0);
    if (order_now == Order::reversed) std::reverse(turn.begin(), turn.end());
    if (order_now == Order::shuffled) std::shuffle(turn.begin(), turn.end(), random);
    gridDim = grid;
    blockDim = block_;
    try {
        for (int i : turn) {
            blockIdx = {unsigned(i) % grid.x, unsigned(i) / grid.x, 0};
            run_block(random, order_now);
        }
    } catch (...) {
        stop();
        throw;
    }
}

}  // namespace

void set_thread_order(Order o) { order = o; }

void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread) {
    const auto check = [](bool holds, const char* what) {
        if (!holds) throw std::runtime_error(std::string("launch: ") + what);
    };
    check(grid.x > 0 && grid.y > 0 && grid.z == 1 && grid.y <= 65535, "grid dimensions");
    check(block.x > 0 && block.y > 0 && block.z > 0 && size_t(block.x) * block.y * block.z <= 1024, "block dimensions");
    check(shared_bytes <= size_t(48) << 10, "more than 48 KiB of shared memory");
    std::mt19937 random(1);
    const auto g = std::make_unique<Grid>(block, shared_bytes, thread);
    running = g.get();
    g->run(grid, random, order);
}

void wait_for_block(std::source_location at) { running->wait(0, at); }
void wait_for_warp(unsigned mask, std::source_location at) { running->wait(mask, at); }
uint64_t exchange(unsigned mask, uint64_t value, int source, std::source_location at) {
    return running->exchange(mask, value, source, at);
}
int lane() { return running->lane(); }
void* shared_memory() { return running->shared(); }
uint64_t device_time() { return clock_now += 1000; }
void let_device_time_pass(uint64_t nanoseconds) { clock_now += nanoseconds; }
Traffic& traffic() {
    thread_local Traffic of_thread;
    return of_thread;
}

}  // namespace convoy::test
