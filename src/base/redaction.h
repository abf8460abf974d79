// --no-environment: what a run records does not say on which hosts and in whose folders it ran.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace convoy {

class Redaction {
public:
    /// From now on a path is replaced by its last part, however it is written; the home and the
    /// current folder by "~" and ".".
    void add_path(const std::string& path);
    /// Names of hosts, in the order of ranks, become host-1, host-2, ….
    void add_hosts(const std::vector<std::string>& of_ranks);
    /// Returns the text without what was added; unchanged if nothing was.
    std::string operator()(std::string text) const;

private:
    struct Entry {
        std::string text, instead;
        bool whole_word = false;
    };
    void add(Entry);
    std::vector<Entry> entries_;  // longer texts first
};

}  // namespace convoy
