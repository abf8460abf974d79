// Work of the emulated device that waits to be done, and the order in which it is: whatever the
// edges allow. Nothing is done before somebody waits for it, as late as a device may be.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace convoy::test {

/// What EMULATED_ORDER says: "compute", "communication", or a number, the seed of a random order.
struct WorkOrder {
    enum Kind {
        compute_first,        ///< streams of high priority come last, and do only what is waited for
        communication_first,  ///< streams of high priority come first, waited for or not
        random                ///< any that is ready, waited for or not
    } kind = communication_first;
    unsigned seed = 0;
};
/// Throws std::invalid_argument; null and empty are the default.
WorkOrder parse_order(const char* text);

struct Work {
    std::function<void()> run;
    bool urgent = false;  ///< of a stream of high priority
    /// Other ranks take part: done only if it is waited for, because they wait for no more than
    /// that.
    bool collective = false;
};

class Pending {
public:
    using Id = uint64_t;  ///< 0: nothing, done already

    explicit Pending(const WorkOrder& order) : order_(order), random_(order.seed) {}
    /// `after`: what must be done before.
    Id put(Work, const std::vector<Id>& after);
    bool done(Id id) const { return !items_.contains(id); }
    /// Does all that `id` comes after, and `id`. What work throws goes through.
    void finish(Id id);
    void finish_all();
    void drop_all();

private:
    struct Item {
        Work work;
        std::vector<Id> after, before;  // before: those that wait for this one
        size_t missing = 0;             // of `after`
        bool wanted = false;
    };
    size_t mark(Id);
    Id choose();
    bool eligible(const Item&) const;
    /// Whether this is done; it is the one that was wanted.
    bool perform(Id);

    const WorkOrder order_;
    std::mt19937 random_;
    std::map<Id, Item> items_;
    std::set<Id> ready_;
    Id last_ = 0;
};

}  // namespace convoy::test
