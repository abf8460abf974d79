// The options of `convoy accept`.
#pragma once
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "comm/host.h"

namespace convoy {

enum class AcceptExtent { quick, standard, thorough };

struct AcceptOptions {
    std::string only, extent_text, device, data, output, fingerprints, save_fingerprint, cluster;
    AcceptExtent extent = AcceptExtent::standard;
    std::vector<std::string> levels;  ///< to run, in this order
    double minutes = 0;
    bool share = false, resume = false;

    /// Returns the options that results depend on. `device`: the kind of device that was chosen.
    Facts recorded(const std::string& device) const;
};

boost::program_options::options_description description(AcceptOptions&);
/// Throws Exit::usage, also for an option that has no effect on the levels of --only.
AcceptOptions parse_accept(const std::vector<std::string>& args);

}  // namespace convoy
