// The file in which a user's runs keep what was measured on one kind of processor. What is in it is
// never measured again, so that all runs compute the same bits.
#pragma once
#include <string>

namespace convoy::cpu {

class ChoiceFile {
public:
    /// Of a processor and library: "AMD EPYC (AVX-512 bf16), oneDNN 3.2.0". Makes the file.
    explicit ChoiceFile(const std::string& kind);
    ~ChoiceFile();
    ChoiceFile(const ChoiceFile&) = delete;

    /// False: nothing can be kept, for want of a folder or a permission.
    bool usable() const { return file_ >= 0; }
    /// For this process, until the end of its life: waits for others that measure, for a second at
    /// most. Whether it could.
    bool lock();
    /// What is in it; it is locked.
    std::string read() const;
    /// Adds whole lines; whether it could.
    bool append(const std::string& lines);

private:
    int file_ = -1;
};

}  // namespace convoy::cpu
