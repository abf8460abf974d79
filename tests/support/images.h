// Generated images, as files and as shards.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/image_file.h"
#include "data/image_shard.h"

namespace convoy::test {

FileBytes bytes_of(const std::string& file);
/// Returns a smooth pattern that differs by seed.
RgbImage pattern(int height, int width, uint32_t seed);
/// Returns `image` as a JPEG file. Throws nothing: libjpeg ends the process.
std::string jpeg_of(const RgbImage&, int quality = 90);

/// Writes DIR/CLASS/NAME.JPEG: `images` per class, 20 to 83 pixels a side. Classes are named
/// "n00000000" and so on.
void make_image_folder(const std::string& dir, int classes, int images);

/// Returns the content of every file of a folder by name.
std::map<std::string, std::string> files_in(const std::string& dir);

/// Returns image `i` of the sets below: 8 to 45 pixels a side, class i % 3.
RgbImage ragged_image(int i);
/// Writes a data set of ragged images: `train_images` in two shards, and 13 test images, which
/// start at image 100.
void make_ragged(const std::string& dir, ImageLayout, int train_images = 40,
                 const std::function<RgbImage(int)>& image_of = ragged_image);

}  // namespace convoy::test
