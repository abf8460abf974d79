#include "backend/cuda/plan_builder.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace convoy::cuda {
namespace {

// Heuristics sort candidates by expected speed, so the best one is rarely beyond these limits.
// Candidates of fused graphs are compiled for the device, up to two seconds each; others are built
// in less than a millisecond.
constexpr int most_timed = 12, most_timed_compiled = 6, most_failed = 12;
constexpr double patience = 2, patience_without_any = 30;  // seconds; the second while a needed spec has no plan
constexpr auto poll_every = std::chrono::milliseconds(5);

}  // namespace

Search::Search(const PlanSpec& s, bool in_a_hurry)
    : needed(!(s.is_norm() || s.add || s.statistics || s.normalise)), hurried(in_a_hurry) {}

bool Search::enough() const {
    return (good > 0 && hurried) || good == (needed ? most_timed : most_timed_compiled) ||
           (good > 0 && failed >= most_failed) || seconds > (good > 0 || !needed ? patience : patience_without_any);
}

BuiltGraph build_candidates(const Cudnn& cudnn, const PlanSpec& spec, const std::string& engine, bool hurried,
                            std::stop_token stop, const Cudnn* handle) {
    BuiltGraph built{std::make_shared<CudnnGraph>(cudnn, spec, handle)};
    Search search(spec, hurried || !engine.empty());
    for (int i = 0; i < built.graph->candidates() && !search.enough() && !stop.stop_requested(); ++i) {
        if (!engine.empty() && built.graph->name(i) != engine) continue;
        const auto start = Clock::now();
        std::string why;
        const bool good = built.graph->build(i, why);
        built.attempts[i] = {good, seconds_since(start)};
        search.add(good);
        search.seconds += built.attempts[i].seconds;
    }
    return built;
}

PlanBuilder::Task PlanBuilder::task_of(const std::string& key, Order& order) {
    order.stop = std::stop_source();
    std::packaged_task<BuiltGraph()> task([work = order.work, stop = order.stop.get_token()] { return work(stop); });
    order.result = task.get_future();
    return {key, std::move(task)};
}

void PlanBuilder::add(const std::string& key, const std::string& family, Work work) {
    if (most_threads_ == 0 || orders_.contains(key)) return;
    Order& order = orders_[key];
    order.family = family;
    order.work = std::move(work);
    {
        const std::lock_guard lock(mutex_);
        queue_.push_back(task_of(key, order));
    }
    wake_.notify_one();
    if (int(threads_.size()) < most_threads_)
        threads_.emplace_back([this](const std::stop_token& stop) { serve(stop); });
}

void PlanBuilder::repeat(const std::string& family) {
    const std::lock_guard lock(mutex_);
    for (auto& [key, order] : orders_) {
        const auto is_this = [&, &k = key](const Task& t) { return t.key == k; };
        if (order.family != family || std::any_of(queue_.begin(), queue_.end(), is_this)) continue;
        order.stop.request_stop();
        queue_.push_front(task_of(key, order));  // in front, because it was queued before the rest
    }
    wake_.notify_all();
}

void PlanBuilder::serve(const std::stop_token& stop) {
    for (;;) {
        std::unique_lock lock(mutex_);
        if (!wake_.wait(lock, stop, [this] { return !queue_.empty(); })) return;
        Task task = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        task.work();  // exceptions go to its future
    }
}

std::optional<BuiltGraph> PlanBuilder::take(const std::string& key, const std::function<void()>& meanwhile) {
    const auto at = orders_.find(key);
    if (at == orders_.end()) return std::nullopt;
    {
        // Move this work to the front of the queue; earlier work was not asked for yet.
        const std::lock_guard lock(mutex_);
        const auto queued = std::find_if(queue_.begin(), queue_.end(), [&](const Task& t) { return t.key == key; });
        if (queued != queue_.end()) std::rotate(queue_.begin(), queued, queued + 1);
    }
    while (at->second.result.wait_for(poll_every) != std::future_status::ready) meanwhile();
    std::future<BuiltGraph> result = std::move(at->second.result);
    orders_.erase(at);
    return result.get();
}

void PlanBuilder::drop() {
    const std::lock_guard lock(mutex_);
    queue_.clear();
    for (auto& [key, order] : orders_) order.stop.request_stop();
    orders_.clear();
}

}  // namespace convoy::cuda
