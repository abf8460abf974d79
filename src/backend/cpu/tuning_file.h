// The user's tuning file for one kind of processor. Its entries are never measured again, so that
// all runs compute the same bits.
#pragma once
#include <string>

namespace convoy::cpu {

class TuningFile {
public:
    /// Opens or creates the file for a processor and library: "AMD EPYC (AVX-512 bf16), oneDNN
    /// 3.2.0".
    explicit TuningFile(const std::string& kind);
    ~TuningFile();
    TuningFile(const TuningFile&) = delete;

    /// Returns false if nothing can be stored, because a folder or a permission is missing.
    bool usable() const { return file_ >= 0; }
    /// Locks the file until this object is destroyed. Waits at most one second for other processes
    /// that are measuring. Returns false if they still hold the lock.
    bool lock();
    /// Returns the file's content. The file must be locked.
    std::string read() const;
    /// Appends whole lines. Returns false if they cannot be written.
    bool append(const std::string& lines);

private:
    int file_ = -1;
};

}  // namespace convoy::cpu
