// Limits how long OpenMP's threads spin while they wait for one another.
#pragma once

namespace convoy {

/// Makes waiting threads spin briefly and then sleep. GNU OpenMP reads its settings when it is
/// loaded, so this sets GOMP_SPINCOUNT and executes the program again in the same process. Does
/// nothing if the environment already says how to wait, if a debugger is attached, or if the
/// executable was removed or replaced. Call it early in main, because main then begins again.
void wait_briefly(char** argv);

}  // namespace convoy
