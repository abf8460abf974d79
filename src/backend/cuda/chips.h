// Descriptions of GPUs that are not there, in the form cuDNN takes, so that plans can be chosen on
// a login node.
#pragma once
#include <string>

namespace convoy::cuda {

/// Of one of known_chips; throws Exit::usage for another name.
const char* chip_description(const std::string& name);
/// Engines that compile at run time look for the driver's library. The toolkit's stub of it serves
/// for other plans, and must be loaded before the first is built.
enum class Driver { none, stub, real };
Driver load_driver_or_stub();

}  // namespace convoy::cuda
