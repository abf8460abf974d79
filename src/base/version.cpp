// CONVOY_COMMIT comes from the Makefile; a new commit rebuilds only this file.
#include "base/version.h"

#ifndef CONVOY_COMMIT
#define CONVOY_COMMIT "unknown"
#endif

namespace convoy {

const char* commit() { return CONVOY_COMMIT; }

}  // namespace convoy
