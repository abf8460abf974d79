// A file of fingerprints: the bits that a kind of device is known to give. A line is
// "kind","case","hash hash …".
#pragma once
#include "accept/bits.h"
#include "base/held_place.h"

namespace convoy {

/// Throws Exit::bad_input for a line that is not of this form, for two lines that contradict each
/// other, and for more than 4 MiB. A line may occur several times.
Fingerprints read_fingerprints(const std::string& path);
/// Adds fingerprints to a file, and creates it if there is none. Throws Exit::bad_input if the file
/// has other bits for one of them. Throws Exit::io for a link or a pipe, and if it cannot be
/// written.
void save_fingerprints(const HeldPlace&, const Fingerprints&);

}  // namespace convoy
