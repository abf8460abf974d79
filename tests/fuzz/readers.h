// The readers of files from elsewhere, each fed with bytes that may be anything: `make fuzz
// READER=shard` lets libFuzzer choose them, and fuzz_test.cpp replays what it found
// (tests/fuzz/inputs/READER/) and many pseudo-random ones.
//
// - shard, checkpoint, model, metrics: the first byte 1: the rest is the file. Else a good file:
//   the bytes choose what becomes of it. First byte below first_kind: attributes and data sets are
//   replaced by others of any type, extent, layout and filter, by links, groups and types; then
//   single bytes are changed and the end is cut off. From there on, four values each: chunks,
//   types, the oldest format, structure (tests/fuzz/hdf5.h). No bytes at all leave it good. The
//   first byte's second bit makes that shard one of vectors.
// - ragged: as shard; that bit makes it one of JPEG files, else of pixels.
// - image, archive: with the first byte's last bit the rest is the JPEG, PNG or tar file; else it
//   changes bytes of a good one.
// - idx, cifar10: the first byte names the one of the files that the rest replaces.
// - pickle: of two files of CIFAR-10's Python version, the first byte's last bit names the one that
//   is hostile. With its second bit the rest replaces that file; else it changes single bytes.
// - recipe: the bytes are the text.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace convoy::test {

using Bytes = std::span<const uint8_t>;

/// First bytes of hostile HDF5 files: kind k has the four from first_kind + 4 * k on.
constexpr uint8_t first_kind = 0xf0;

const std::vector<std::string>& fuzz_reader_names();

/// Reads `bytes` as `reader` would, with files in the empty folder `dir`. Returns the refusal,
/// empty if they were accepted. Anything but an Error of Exit::bad_input or Exit::usage whose
/// message is one line of text passes through.
std::string feed(const std::string& reader, const std::string& dir, Bytes bytes);

}  // namespace convoy::test
