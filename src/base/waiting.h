// How long OpenMP's threads spin where they wait for one another.
#pragma once

namespace convoy {

/// Makes threads that wait spin briefly and then sleep, as GNU OpenMP can only be told before it is loaded: sets GOMP_SPINCOUNT and
/// starts this program anew, in the same process. Returns where the user's environment says how to wait, and where a debugger
/// watches. For the first line of main.
void wait_briefly(char** argv);

}  // namespace convoy
