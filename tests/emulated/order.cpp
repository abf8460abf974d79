#include "tests/emulated/order.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace convoy::test {

WorkOrder parse_order(const char* text) {
    const std::string order = text ? text : "";
    if (order.empty()) return {};
    if (order == "compute") return {WorkOrder::compute_first};
    if (order == "communication") return {WorkOrder::communication_first};
    if (order.size() > 9 || order.find_first_not_of("0123456789") != std::string::npos)
        throw std::invalid_argument("EMULATED_ORDER is '" + order + "'; give compute, communication or a seed");
    return {WorkOrder::random, unsigned(std::stoul(order))};
}

Pending::Id Pending::put(Work work, const std::vector<Id>& after) {
    const Id id = ++last_;
    Item& item = items_[id];
    item.work = std::move(work);
    for (const Id before : after) {
        const auto at = items_.find(before);
        if (at == items_.end() || before == id) continue;
        at->second.before.push_back(id);
        item.after.push_back(before);
    }
    item.missing = item.after.size();
    if (item.missing == 0) ready_.insert(id);
    return id;
}

/// Marks undone work that must be done for `id`. Returns its number.
size_t Pending::mark(Id id) {
    std::vector<Id> open = {id};
    size_t marked = 0;
    while (!open.empty()) {
        const auto at = items_.find(open.back());
        open.pop_back();
        if (at == items_.end() || std::exchange(at->second.wanted, true)) continue;
        ++marked;
        open.insert(open.end(), at->second.after.begin(), at->second.after.end());
    }
    return marked;
}

bool Pending::eligible(const Item& item) const {
    if (item.wanted) return true;
    if (item.work.collective || order_.kind == WorkOrder::compute_first) return false;
    return order_.kind == WorkOrder::random || item.work.urgent;
}

Pending::Id Pending::choose() {
    std::vector<Id> eligible_now;
    for (const Id id : ready_)
        if (eligible(items_.at(id))) eligible_now.push_back(id);
    if (eligible_now.empty()) throw std::logic_error("work waits for itself");
    if (order_.kind == WorkOrder::random) return eligible_now[random_() % eligible_now.size()];
    const bool urgent = order_.kind == WorkOrder::communication_first;
    const auto first = std::find_if(eligible_now.begin(), eligible_now.end(),
                                    [&](Id id) { return items_.at(id).work.urgent == urgent; });
    return first == eligible_now.end() ? eligible_now.front() : *first;
}

bool Pending::perform(Id id) {
    const auto at = items_.find(id);
    const Item item = std::move(at->second);
    items_.erase(at);
    ready_.erase(id);
    for (const Id next : item.before)
        if (--items_.at(next).missing == 0) ready_.insert(next);
    item.work.run();
    return item.wanted;
}

void Pending::finish(Id id) {
    for (size_t left = mark(id); left > 0;) left -= perform(choose());
}

void Pending::finish_all() {
    while (!items_.empty()) finish(items_.rbegin()->first);
}

void Pending::drop_all() {
    items_.clear();
    ready_.clear();
}

}  // namespace convoy::test
