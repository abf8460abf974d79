// The rules that judge each fact of a node or GPU, alone or beside the same fact of others.
#pragma once
#include <string>
#include <vector>

#include "accept/verdict.h"
#include "comm/host.h"

namespace convoy {

/// Which of two different values is wrong. `less`: the smaller number. `unknown`: that of the
/// minority.
enum class Worse { unknown, off, down, less };

/// How a fact is compared between nodes, or between GPUs.
struct FactRule {
    /// name of the fact; " speed" means all names that end so, "module " all names that begin so
    std::string name;
    Outcome outcome = Outcome::warn;  ///< outcome of the level if a unit is blamed
    bool drain = false;
    bool of_model = false;  ///< compared only between nodes of one CPU model, or GPUs of one model
    Worse worse = Worse::unknown;
    bool roughly = false;  ///< numbers within 1 % of the median are equal to it
};
/// Returns the rule for a fact; null if it may differ, as a serial number may.
const FactRule* rule_for(const std::string& fact);
/// Returns true if `text` is the worse value. For Worse::less, `best` is the text with the largest
/// number; otherwise it is not used.
bool is_worse(Worse, const std::string& text, const std::string& best);

/// A fault that needs no comparison.
struct Fault {
    std::string fact;  ///< name of the fact at fault; empty: no single one
    std::string reason;
    Outcome outcome = Outcome::warn;
    bool drain = false;
};
/// Returns the faults of a node with `ranks` ranks.
std::vector<Fault> faults_of_node(const Facts&, int ranks, bool on_gpus);
std::vector<Fault> faults_of_gpu(const Facts&);

/// Returns the name of a fact as people write it: "cudnn" is "cuDNN".
std::string label_of(const std::string& fact);
/// Returns the number at the start of a text, or after one letter, as in "x16"; 0 if there is none.
double leading_number(const std::string& text);

}  // namespace convoy
