// Every field of what the options of a training become, as text by name. The structs are taken
// apart by structured bindings: a field that is added does not compile until it is named here, and
// then no test passes until it has a value there.
#pragma once
#include <map>
#include <string>

#include "cli/train_setup.h"

namespace convoy::test {

using Fields = std::map<std::string, std::string>;

/// Shortest text that reads back as the same number; enumerators by number; lists as "1,2".
std::string text_of(bool);
std::string text_of(int64_t);
std::string text_of(float);
std::string text_of(double);

/// Fields of a member struct are named "optimizer.momentum" and so on.
Fields fields_of(const TrainSetup&);
Fields fields_of(const BackendOptions&);  ///< as "backend.threads"
Fields fields_of(const ModelOptions&);    ///< as "model.name"

/// What they are on setup_test's data and ranks without any option but a batch of 7 a rank.
Fields standard_fields();

}  // namespace convoy::test
