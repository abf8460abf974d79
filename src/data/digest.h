// MD5 and SHA-256 of buffers and files, as lower-case hexadecimal. Files are streamed, never held
// in memory. MD5 is used only because the pages of CIFAR and MNIST publish it; our manifests use
// SHA-256.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "base/file_place.h"

struct evp_md_ctx_st;

namespace convoy {

class Digest {
public:
    enum class Kind { md5, sha256 };
    explicit Digest(Kind kind);
    void update(const void* data, size_t bytes);
    /// Returns the digest. Call once, last.
    std::string hex();

private:
    std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

/// Returns the digest of a buffer.
std::string digest_of(Digest::Kind kind, const void* data, size_t bytes);
/// Returns the digest of a file. Throws Exit::bad_input naming it if it cannot be read.
std::string digest_of_file(Digest::Kind kind, const FilePlace&);

}  // namespace convoy
