// --no-environment: removes names of hosts and folders from the texts that a run records.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace convoy {

class Redaction {
public:
    /// Replaces a path, however it is written, by its last component from now on. Also replaces the
    /// home folder by "~" and the current folder by ".".
    void add_path(const std::string& path);
    /// Replaces the names of hosts, in the order of ranks, by host-1, host-2, ….
    void add_hosts(const std::vector<std::string>& of_ranks);
    /// Returns the text with all that was added replaced; unchanged if nothing was added. Of any
    /// other absolute path, only the last component is left; a blank ends such a path.
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
