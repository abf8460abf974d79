// Flattens the resolved options of a training into text by name. Structured bindings take the
// structs apart. So a new field does not compile until it is named here, and then every test fails
// until it has a value in standard_fields().
#pragma once
#include <map>
#include <string>

#include "cli/train_setup.h"

namespace convoy::test {

using Fields = std::map<std::string, std::string>;

/// Return the shortest text that reads back as the same number; enumerators as numbers; lists as
/// "1,2".
std::string text_of(bool);
std::string text_of(int64_t);
std::string text_of(float);
std::string text_of(double);

/// Return fields by name; those of a member struct are named "optimizer.momentum" and so on.
Fields fields_of(const TrainSetup&);
Fields fields_of(const BackendOptions&);  ///< as "backend.threads"
Fields fields_of(const ModelOptions&);    ///< as "model.name"

/// Returns the values on setup_test's data and ranks without any option but a batch of 7 per rank.
Fields standard_fields();

}  // namespace convoy::test
