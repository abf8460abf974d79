// A folder that is opened once. Files are made, renamed and removed in that same folder, even if
// its path is meanwhile replaced by a link or another folder.
#pragma once
#include <fcntl.h>

#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/descriptor.h"
#include "base/file_error.h"

namespace convoy {

/// Returns a path without slashes at its end, because open(2) always follows a link before a slash.
std::string without_slashes(std::string path);

/// Holds an open folder. Names are those of its entries, without a slash. Entries that are links
/// are not followed. Messages show the path that the user gave. Copies share the descriptor.
class HeldFolder {
public:
    /// The treatment of a link as the last component of a path. `follow_own` refuses a link of
    /// another user, unless that is root.
    enum class IfLink { refuse, follow_own, follow };

    /// Opens the folder at `path`. Throws Exit::io.
    explicit HeldFolder(const std::string& path, IfLink = IfLink::refuse);
    /// Opens the folder `name` in `above`. Throws Exit::io.
    HeldFolder(const HeldFolder& above, const std::string& name, IfLink = IfLink::refuse);

    int fd() const { return folder_->fd(); }
    /// Returns the path that it was opened by, without a slash at the end.
    const std::string& shown() const { return shown_; }
    std::string shown(const std::string& name) const { return shown_ + "/" + name; }
    /// Returns a path of an entry for libraries that take no descriptor: "/proc/self/fd/N/NAME".
    /// Without /proc, returns shown(NAME). Throws Exit::io if that path leads to another folder.
    std::string path(const std::string& name) const;
    /// Runs `action`, and replaces path() by shown() in the messages of its errors.
    template <class Action> auto named(Action action) const {
        try {
            return action();
        } catch (const Inaccessible& error) {
            throw Inaccessible(with_shown(error.what()));
        } catch (const Error& error) {
            fail(error.code, with_shown(error.what()));
        }
    }
    /// True if the path still leads to this folder.
    bool is_still_at_its_path() const;
    /// True if the folder was removed, so that no entry can be made in it.
    bool was_removed() const;
    /// Returns the current path of the folder, without links, for people.
    std::string real_path() const;
    /// Returns the names of all entries, unsorted. Sets `error` if some may be missing.
    std::vector<std::string> names(std::error_code& error) const;

    /// Makes a file that does not exist yet, and opens it to read and write. Throws Exit::io.
    Descriptor open_new(const std::string& name) const;
    /// Replaces the file of this name by a new one. Does not follow a link or wait for a pipe.
    /// Other hard links to the old file keep it. Throws Exit::io.
    Descriptor replace(const std::string& name) const;
    /// Opens or makes a file; `flags` as of open(2). Throws Exit::io.
    Descriptor open_to_write(const std::string& name, int flags) const;
    /// Opens an existing file; `flags` as of open(2). Throws Inaccessible (base/file_error.h).
    Descriptor open_existing(const std::string& name, int flags = O_RDONLY) const;
    /// True if there is an entry of this name. A link counts even if it leads nowhere.
    bool has(const std::string& name) const;
    /// Makes a folder unless there is one of this name. Throws Exit::io if that fails.
    void make_folder(const std::string& name) const;

    /// Renames an entry, and replaces the entry `to` if there is one.
    std::error_code rename(const std::string& from, const std::string& to) const;
    /// Removes a file, a link or an empty folder. No error if there is none.
    std::error_code remove(const std::string& name) const;
    /// Removes as remove() does, and ignores errors.
    void try_to_remove(const std::string& name) const { [[maybe_unused]] const std::error_code ignored = remove(name); }
    /// Removes an entry, with its content if it is a folder. No error if there is none.
    std::error_code remove_tree(const std::string& name) const;
    /// Waits until new, renamed and removed entries are on disk.
    std::error_code sync() const;

private:
    HeldFolder(int above, const std::string& name, std::string shown, IfLink);
    std::string with_shown(std::string message) const;

    std::string shown_;
    IfLink if_link_;
    std::shared_ptr<const Descriptor> folder_;
};

}  // namespace convoy
