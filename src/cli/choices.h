// Options that take one of a few words. A table has each word, its meaning and its note for --help.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda_queries.h"
#include "base/nearest_name.h"
#include "model/precision.h"
#include "train/setup.h"

namespace convoy {

template <class T> struct Choice {
    const char* name;
    T value;
    const char* note = "";  ///< for --help, in brackets after the name
};
template <class T> using Choices = std::vector<Choice<T>>;

[[noreturn]] void refuse_choice(const std::string& option, const std::string& text,
                                const std::vector<std::string>& names);

template <class T> std::vector<std::string> names_of(const Choices<T>& choices) {
    std::vector<std::string> names;
    for (const Choice<T>& c : choices) names.emplace_back(c.name);
    return names;
}
/// Returns "a, b (its note) or c".
template <class T> std::string help_of(const Choices<T>& choices) {
    std::vector<std::string> words;
    for (const Choice<T>& c : choices) words.push_back(c.name + (*c.note ? " (" + std::string(c.note) + ")" : ""));
    return list_of(words);
}
/// Throws Exit::usage, naming the option and the choices.
template <class T> T choose(const std::string& option, const std::string& text, const Choices<T>& choices) {
    for (const Choice<T>& c : choices)
        if (text == c.name) return c.value;
    refuse_choice(option, text, names_of(choices));
}
template <class T> const char* name_of(const Choices<T>& choices, const T& value) {
    for (const Choice<T>& c : choices)
        if (value == c.value) return c.name;
    return "";
}

/// The values of --optimizer.
enum class OptimizerChoice { sgd, adam, muon };

// Choices that several commands, or files of a run, share.
const Choices<OptimizerChoice>& optimizer_choices();
const Choices<Precision>& precision_choices();
const Choices<Tta>& tta_choices();
const Choices<std::string>& device_choices();
const Choices<Placement>& placement_choices();
const Choices<NormBy>& norm_choices();
const Choices<ConvBy>& conv_choices();
/// The values of --lr-schedule; nullopt means auto.
const Choices<std::optional<Schedule::Kind>>& schedule_choices();

}  // namespace convoy
