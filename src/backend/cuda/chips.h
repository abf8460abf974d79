// Descriptions of GPUs that are not present, in cuDNN's format, so that a login node can list plans
// for them.
#pragma once
#include <string>

namespace convoy::cuda {

/// Returns the description of one of known_chips; throws Exit::usage for another name.
std::string chip_description(const std::string& name);
/// The driver library that was found. Engines that compile at run time need the real one; for all
/// others the toolkit's stub suffices.
enum class Driver { none, stub, real };
/// Loads the driver library or, without a driver, its stub. Call it before the first plan is built.
Driver load_driver_or_stub();

}  // namespace convoy::cuda
