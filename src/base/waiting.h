// How long OpenMP's threads spin where they wait for one another.
#pragma once

namespace convoy {

/// Makes threads that wait spin briefly and then sleep. GNU OpenMP can only be told before it is
/// loaded, so this sets GOMP_SPINCOUNT and starts the program anew, in the same process. Does
/// nothing if the user's environment says how to wait, or a debugger watches. For the first line of
/// main.
void wait_briefly(char** argv);

}  // namespace convoy
