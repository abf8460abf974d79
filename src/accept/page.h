// report.html of an acceptance test: one file without references to others.
#pragma once
#include "accept/acceptance.h"

namespace convoy {

/// Returns the page: the verdict, a table of the levels, the facts in which hosts differ, and
/// pictures of the figures. It is well-formed XML, too. Names of hosts and all other texts are
/// escaped.
std::string acceptance_page(const Acceptance&);

/// Returns the pictures of a level's figures; "" if there are none.
std::string pictures_of(const LevelResult&);

/// Returns a table of the facts in which hosts, or their devices, differ. Leaves out facts that the
/// inventory does not judge. Marks values that are not the majority's. Returns a sentence if
/// nothing differs, and "" for fewer than two units.
std::string differences_of(const LevelResult&);

}  // namespace convoy
