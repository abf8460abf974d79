#include "cli/versions.h"

#include <archive.h>
#include <openssl/crypto.h>

#include <boost/version.hpp>

#include "comm/comm.h"
#include "data/hdf5.h"
#include "data/image_file.h"

namespace convoy {

Versions library_versions() {
    const auto dots = [](unsigned a, unsigned b, unsigned c) {
        return std::to_string(a) + "." + std::to_string(b) + "." + std::to_string(c);
    };
    const unsigned archive = unsigned(archive_version_number());
    Versions all = {{"mpi", mpi_version()}, {"hdf5", h5::library_version()}};
    for (const auto& library : cpu_versions()) all.push_back(library);
    all.push_back({"boost", dots(BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100)});
    all.push_back({"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)});
    all.push_back({"libarchive", dots(archive / 1000000, archive / 1000 % 1000, archive % 1000)});
    all.push_back({"libjpeg", jpeg_version()});
    all.push_back({"libpng", png_version()});
    all.push_back({"libwebp", webp_version()});
    all.push_back({"giflib", gif_version()});
    all.push_back({"libtiff", tiff_version()});
    return all;
}

Versions versions_of_run(const Backend& backend) {
    Versions all = library_versions();
    for (const auto& library : backend.facts().versions) all.push_back(library);
    return all;
}

Facts environment_of_run(const Backend& backend) {
    Facts all = facts_of_host();
    for (const auto& fact : backend.facts().identity) all.push_back(fact);
    if (const std::string transport = backend.facts().transport; !transport.empty())
        all.emplace_back("sums_over_ranks", transport);
    return all;
}

}  // namespace convoy
