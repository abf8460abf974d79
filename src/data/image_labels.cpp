// Orders and names the classes of images, and maps labels to classes.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/input_file.h"
#include "base/shorten.h"
#include "data/image_list.h"
#include "data/image_names.h"

namespace convoy {
namespace {

constexpr int64_t most_classes = 1'000'000;

/// Reads the lines "ID NAME" of a file, in their order.
ClassTable read_classes(const std::string& file) {
    const std::string advice = "it takes lines 'n01440764 tench'";
    ClassTable table;
    std::set<std::string> seen;
    for (const std::string& line : lines_of_input(file, 64 << 20, advice)) {
        if (line.empty()) continue;
        const size_t blank = line.find_first_of(" \t");
        const std::string id = line.substr(0, blank);
        if (!seen.insert(id).second) fail(Exit::bad_input, file + ": names " + shortened(id) + " twice; " + advice);
        table.ids.push_back(id);
        table.names.push_back(blank == std::string::npos ? id : line.substr(line.find_first_not_of(" \t", blank)));
    }
    if (table.ids.empty()) fail(Exit::bad_input, file + ": is empty; " + advice);
    return table;
}

std::string first_of(const ListedImage& image) {
    return "'" + shortened(image.label) + "' (of " + shortened(image.name) + ")";
}

/// Throws if an id or a name is a number, but not that of its line: a label could then mean either.
void check_numbers(const ClassTable& table, const std::string& file) {
    for (size_t i = 0; i < table.ids.size(); ++i)
        for (const std::string& text : {table.ids[i], table.names[i]})
            if (is_number(text) && number_of(text) != int64_t(i))
                fail(Exit::bad_input, file + ": the labels are numbers, and line " + std::to_string(i + 1) +
                                          ", which is class " + std::to_string(i) + ", says " + shortened(text) +
                                          "; list the classes in the order 0, 1, 2 and so on");
}

void set_numbers(ImageList& list, int64_t classes) {
    for (ListedImage& image : list.images) {
        const int64_t number = number_of(image.label);
        if (number < 0 || number >= classes)
            fail(Exit::bad_input, "label " + first_of(image) + ": allowed is 0 to " + std::to_string(classes - 1) +
                                      ", the number of classes less one; check the labels, or --classes");
        image.class_index = int32_t(number);
    }
}

}  // namespace

ClassTable name_classes(ImageList& train, const std::string& file) {
    const ClassTable named = file.empty() ? ClassTable() : read_classes(file);
    if (train.numbered) {
        int64_t most = 0;
        for (const ListedImage& image : train.images) most = std::max(most, number_of(image.label));
        check_numbers(named, file);
        ClassTable table = named;
        table.numbered = true;
        for (int64_t i = 0; file.empty() && i <= std::min(most, most_classes); ++i)
            table.ids.push_back(std::to_string(i));
        if (file.empty()) table.names = table.ids;
        set_numbers(train, int64_t(table.ids.size()));
        return table;
    }
    std::map<std::string, std::string> names;
    for (size_t i = 0; i < named.ids.size(); ++i) names[named.ids[i]] = named.names[i];
    ClassTable table;
    for (ListedImage& image : train.images) {  // sorted by label
        if (table.ids.empty() || table.ids.back() != image.label) {
            if (!file.empty() && !names.contains(image.label))
                fail(Exit::bad_input, file + ": has no line for class " + first_of(image) + "; add it");
            table.ids.push_back(image.label);
            table.names.push_back(file.empty() ? image.label : names[image.label]);
        }
        image.class_index = int32_t(table.ids.size() - 1);
    }
    std::vector<std::string> used = named.ids;
    std::erase_if(used, [&](const std::string& id) { return !std::ranges::binary_search(table.ids, id); });
    table.reordered = !file.empty() && used != table.ids;
    if (int64_t(table.ids.size()) > most_classes)
        fail(Exit::bad_input, "more than " + std::to_string(most_classes) + " classes; is each folder one?");
    return table;
}

namespace {

/// Returns "7" for "007", because leading zeros do not make another class.
std::string plain_label(const std::string& label) {
    return is_number(label) ? std::to_string(number_of(label)) : label;
}

/// Maps each id, its plain_label() and each name to a class index; -1 if several classes share it.
/// An id takes precedence over an equal plain label, and that over an equal name.
std::map<std::string, int32_t> meanings_of(const ClassTable& classes) {
    std::map<std::string, int32_t> ids, meanings;
    for (size_t i = 0; i < classes.ids.size(); ++i) {
        const auto [before, is_new] = ids.try_emplace(plain_label(classes.ids[i]), int32_t(i));
        if (!is_new) before->second = -1;
    }
    for (size_t i = 0; i < classes.names.size(); ++i) {
        const auto [before, is_new] = meanings.try_emplace(classes.names[i], int32_t(i));
        if (!is_new) before->second = -1;
    }
    for (const auto& [id, index] : ids) meanings[id] = index;
    for (size_t i = 0; i < classes.ids.size(); ++i) meanings[classes.ids[i]] = int32_t(i);
    return meanings;
}

}  // namespace

void find_classes(ImageList& test, const ClassTable& classes) {
    std::set<std::string> ids;
    for (const std::string& id : classes.ids) ids.insert(plain_label(id));
    const bool are_ids = std::any_of(test.images.begin(), test.images.end(),
                                     [&](const ListedImage& image) { return ids.contains(plain_label(image.label)); });
    if (test.numbered && (classes.numbered || !are_ids)) {
        if (classes.reordered)
            fail(Exit::bad_input,
                 "the test labels are numbers, and --classes lists the classes in another order than that of their "
                 "ids; sort its lines by id if the numbers count sorted ids, or label the test images by ids");
        return set_numbers(test, int64_t(classes.ids.size()));
    }
    const std::map<std::string, int32_t> meanings = meanings_of(classes);
    for (ListedImage& image : test.images) {
        auto found = meanings.find(image.label);
        if (found == meanings.end()) found = meanings.find(plain_label(image.label));
        if (found == meanings.end())
            fail(Exit::bad_input,
                 "the test images have a class " + first_of(image) + ", and the training has none of it");
        if (found->second < 0)
            fail(Exit::bad_input, "the test images have a class " + first_of(image) +
                                      ", which is the name of several classes; label the images by ids");
        image.class_index = found->second;
    }
}

}  // namespace convoy
