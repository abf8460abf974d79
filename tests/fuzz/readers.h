// Readers of files from elsewhere, each fed with arbitrary bytes. `make fuzz READER=shard` lets
// libFuzzer choose them. hostile_files_test.cpp replays what it found (tests/fuzz/inputs/READER/),
// and many pseudo-random inputs.
//
// - shard, checkpoint, model, metrics: if the first byte is 1, the rest is the file. Otherwise the
//   bytes edit a good file. First byte below first_kind: attributes and data sets are replaced by
//   others of any type, extent, layout and filter, by links, groups and types; then single bytes
//   are changed and the end is cut off. From there on, four values each: chunks, types, the oldest
//   format, structure (tests/fuzz/hdf5.h). No bytes at all leave it good. The first byte's second
//   bit makes that shard one of vectors.
// - ragged: like shard; that bit makes it one of JPEG files, otherwise of pixels.
// - image, webp, gif, bmp, tiff, archive: if the first byte's last bit is set, the rest is the
//   picture or tar file; otherwise it changes bytes of a good one, a JPEG for image.
// - idx, cifar10: the first byte selects the file that the rest replaces.
// - pickle: the first byte's last bit selects the hostile one of two files of CIFAR-10's Python
//   version. If its second bit is set, the rest replaces that file; otherwise it changes bytes.
// - safetensors, pth, oldpth: as image, with a file of weights. oldpth is what torch.save() wrote
//   before version 1.6. If the second bit of pth's first byte is set, the bytes are operations of
//   pickles.
// - figures: the first byte selects one of nine files of figures; the rest exchanges words in it.
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

/// Reads `bytes` with `reader`, with files in the empty folder `dir`. Returns the refusal; empty if
/// they were accepted. Any exception passes through except an Error of Exit::bad_input or
/// Exit::usage whose message is one line of text.
std::string feed(const std::string& reader, const std::string& dir, Bytes bytes);

}  // namespace convoy::test
