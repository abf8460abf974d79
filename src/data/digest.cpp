// Streams bytes through OpenSSL's EVP interface.
#include "data/digest.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/file_error.h"
#include "data/input_bytes.h"

namespace convoy {

Digest::Digest(Kind kind) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    const char* name = kind == Kind::md5 ? "MD5" : "SHA-256";
    const EVP_MD* type = kind == Kind::md5 ? EVP_md5() : EVP_sha256();
    if (!context_ || EVP_DigestInit_ex(context_.get(), type, nullptr) != 1)
        fail(Exit::io, std::string("OpenSSL does not offer ") + name + " here (FIPS mode?)");
}

void Digest::update(const void* data, size_t bytes) {
    require(EVP_DigestUpdate(context_.get(), data, bytes) == 1, "a digest accepts data until it is ended");
}

std::string Digest::hex() {
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    require(EVP_DigestFinal_ex(context_.get(), raw, &size) == 1, "a digest is ended once");
    std::string text;
    for (unsigned i = 0; i < size; ++i) {
        text += "0123456789abcdef"[raw[i] >> 4];
        text += "0123456789abcdef"[raw[i] & 15];
    }
    return text;
}

std::string digest_of(Digest::Kind kind, const void* data, size_t bytes) {
    Digest digest(kind);
    digest.update(data, bytes);
    return digest.hex();
}

std::string digest_of_file(Digest::Kind kind, const FilePlace& place) {
    const InputBytes file(place);
    Digest digest(kind);
    std::vector<unsigned char> buffer(1 << 20);
    for (ssize_t bytes = 1; bytes != 0;) {
        bytes = ::read(file.descriptor(), buffer.data(), buffer.size());
        if (bytes < 0 && errno != EINTR) cannot_read(place.shown, errno, "check the file system");
        if (bytes > 0) digest.update(buffer.data(), size_t(bytes));
    }
    return digest.hex();
}

}  // namespace convoy
