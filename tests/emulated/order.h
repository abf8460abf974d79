// Work of the emulated device that waits to be done, and its order: any that the edges allow. Work
// is done only when it is waited for, as late as a device may be.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace convoy::test {

/// Value of EMULATED_ORDER: "compute", "communication", or a number, the seed of a random order.
struct WorkOrder {
    enum Kind {
        compute_first,        ///< high-priority streams come last, and do only what is waited for
        communication_first,  ///< high-priority streams come first, waited for or not
        random                ///< any work that is ready, waited for or not
    } kind = communication_first;
    unsigned seed = 0;
};
/// Parses EMULATED_ORDER; null and empty are the default. Throws std::invalid_argument.
WorkOrder parse_order(const char* text);

struct Work {
    std::function<void()> run;
    bool urgent = false;  ///< on a high-priority stream
    /// Other ranks take part: run only if it is waited for, because they wait for nothing else.
    bool collective = false;
};

class Pending {
public:
    using Id = uint64_t;  ///< 0: nothing, or done already

    explicit Pending(const WorkOrder& order) : order_(order), random_(order.seed) {}
    /// Adds work that comes after `after`.
    Id put(Work, const std::vector<Id>& after);
    bool done(Id id) const { return !items_.contains(id); }
    /// Does everything before `id`, and `id`. Passes on what work throws.
    void finish(Id id);
    void finish_all();
    void drop_all();

private:
    struct Item {
        Work work;
        std::vector<Id> after, before;  // before: items that wait for this one
        size_t missing = 0;             // number of `after` that are not done
        bool wanted = false;
    };
    size_t mark(Id);
    Id choose();
    bool eligible(const Item&) const;
    /// Does the work. Returns true if it is the one that was wanted.
    bool perform(Id);

    const WorkOrder order_;
    std::mt19937 random_;
    std::map<Id, Item> items_;
    std::set<Id> ready_;
    Id last_ = 0;
};

}  // namespace convoy::test
