#pragma once
#include <functional>

namespace convoy::test {

/// Work of the emulated device, after all that was put on any stream before.
void put_on_stream(std::function<void()>);

}  // namespace convoy::test
