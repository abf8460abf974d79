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

/// Returns a path without slashes at its end: before one, open(2) follows a link whatever it is
/// told.
std::string without_slashes(std::string path);

/// Holds an open folder. Names are those of entries in it, without a slash, and no entry that is a
/// link is followed. Messages name entries as the user named the folder. Copies share the
/// descriptor.
class HeldFolder {
public:
    /// Says if a link as the last component of a path is followed. `follow_own` refuses a link of
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
    /// Without /proc it is shown(NAME), as long as this folder is still there. Throws Exit::io
    /// where it is not.
    std::string path(const std::string& name) const;
    /// Runs `action`; where messages of its errors name path(), they name shown() instead.
    template <class Action> auto named(Action action) const {
        try {
            return action();
        } catch (const Inaccessible& error) {
            throw Inaccessible(with_shown(error.what()));
        } catch (const Error& error) {
            fail(error.code, with_shown(error.what()));
        }
    }
    /// Whether the path still leads to this folder.
    bool is_still_at_its_path() const;
    /// Whether the folder was removed, so that nothing can be made in it.
    bool was_removed() const;
    /// Returns where the folder is, without links, for people.
    std::string real_path() const;
    /// Returns the names of all entries, unsorted. Sets `error` if some may be missing.
    std::vector<std::string> names(std::error_code& error) const;

    /// Makes a file that is not there yet, and opens it to read and write. Throws Exit::io.
    Descriptor open_new(const std::string& name) const;
    /// Makes a new file in place of the one that has this name, as create_to_write(). Throws
    /// Exit::io.
    Descriptor replace(const std::string& name) const;
    /// Opens or makes a file; `flags` as of open(2). Throws Exit::io.
    Descriptor open_to_write(const std::string& name, int flags) const;
    /// Opens a file that is there; `flags` as of open(2). Throws Inaccessible (base/file_error.h).
    Descriptor open_existing(const std::string& name, int flags = O_RDONLY) const;
    /// Whether there is an entry of this name; a link counts whatever it leads to.
    bool has(const std::string& name) const;
    /// Makes a folder if there is no entry of this name. Throws Exit::io if there is none then.
    void make_folder(const std::string& name) const;

    /// Renames an entry, in place of what is called `to`.
    std::error_code rename(const std::string& from, const std::string& to) const;
    /// Removes a file, a link or an empty folder. No error if there is none.
    std::error_code remove(const std::string& name) const;
    /// Removes an entry, and all that is in it if it is a folder. No error if there is none.
    std::error_code remove_tree(const std::string& name) const;
    /// Brings what was made, renamed and removed to the disk.
    std::error_code sync() const;

private:
    HeldFolder(int above, const std::string& name, std::string shown, IfLink);
    std::string with_shown(std::string message) const;

    std::string shown_;
    IfLink if_link_;
    std::shared_ptr<const Descriptor> folder_;
};

}  // namespace convoy
