#include "cli/versions.h"

#include <archive.h>
#include <dnnl.h>
#include <mpi.h>
#include <openssl/crypto.h>

#include <boost/version.hpp>

#include "data/hdf5.h"

namespace convoy {

Versions library_versions() {
    const auto dots = [](unsigned a, unsigned b, unsigned c) { return std::to_string(a) + "." + std::to_string(b) + "." + std::to_string(c); };
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(mpi, &length);
    const std::string mpi_text(mpi, length);
    const dnnl_version_t* onednn = dnnl_version();
    return {{"mpi", mpi_text.substr(0, mpi_text.find(','))},
            {"hdf5", h5::library_version()},
            {"onednn", dots(unsigned(onednn->major), unsigned(onednn->minor), unsigned(onednn->patch))},
            {"boost", dots(BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100)},
            {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)},
            {"libarchive", dots(unsigned(archive_version_number()) / 1000000, unsigned(archive_version_number()) / 1000 % 1000,
                                unsigned(archive_version_number()) % 1000)}};
}

Versions versions_of_run(const Backend& backend) {
    Versions all = library_versions();
    for (const auto& library : backend.versions()) all.push_back(library);
    return all;
}

}  // namespace convoy
