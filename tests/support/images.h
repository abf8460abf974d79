// Made-up images, as files and as shards.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/image_file.h"
#include "data/image_shard.h"

namespace convoy::test {

FileBytes bytes_of(const std::string& file);
/// A smooth pattern, another one for each seed.
RgbImage pattern(int height, int width, uint32_t seed);
/// `image` as a JPEG file. Throws nothing: libjpeg ends the process.
std::string jpeg_of(const RgbImage&, int quality = 90);

/// Writes DIR/CLASS/NAME.JPEG, `images` of each class, of 20 to 83 pixels a side. Classes are
/// "n00000000" and so on.
void make_image_folder(const std::string& dir, int classes, int images);

/// The content of every file of a folder, by name.
std::map<std::string, std::string> files_in(const std::string& dir);

/// Image `i` of the sets below: from 8 to 45 pixels a side, of class i % 3.
RgbImage ragged_image(int i);
/// Writes a data set of ragged images, 13 test images (from image 100 on) and `train_images` in two
/// shards.
void make_ragged(const std::string& dir, ImageLayout, int train_images = 40,
                 const std::function<RgbImage(int)>& image_of = ragged_image);

}  // namespace convoy::test
