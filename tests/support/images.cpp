#include "tests/support/images.h"

#include <cmath>
#include <cstdio>
#include <filesystem>

// jpeglib.h needs FILE declared before it
#include <jpeglib.h>

#include "data/digest.h"
#include "tests/support/support.h"

namespace convoy::test {
namespace fs = std::filesystem;

FileBytes bytes_of(const std::string& file) { return {reinterpret_cast<const uint8_t*>(file.data()), file.size()}; }

RgbImage pattern(int height, int width, uint32_t seed) {
    RgbImage image{height, width};
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
            for (int c = 0; c < 3; ++c)
                image.pixels.push_back(uint8_t(128 + 70 * std::sin(0.1 * x + seed + c) + 50 * std::cos(0.07 * y * c)));
    return image;
}

std::string jpeg_of(const RgbImage& image, int quality) {
    jpeg_error_mgr errors;
    jpeg_compress_struct cinfo{};
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    unsigned char* bytes = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&cinfo, &bytes, &size);
    cinfo.image_height = JDIMENSION(image.height);
    cinfo.image_width = JDIMENSION(image.width);
    cinfo.input_components = 3;
    cinfo.in_color_space = JCS_RGB;
    jpeg_set_defaults(&cinfo);
    jpeg_set_quality(&cinfo, quality, TRUE);
    jpeg_start_compress(&cinfo, TRUE);
    while (cinfo.next_scanline < cinfo.image_height) {
        auto* row = const_cast<uint8_t*>(&image.pixels[size_t(cinfo.next_scanline) * size_t(image.width) * 3]);
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    std::string file(bytes, bytes + size);
    std::free(bytes);
    return file;
}

void make_image_folder(const std::string& dir, int classes, int images) {
    for (int c = 0; c < classes; ++c)
        for (int i = 0; i < images; ++i) {
            const uint32_t seed = uint32_t(c * images + i);
            char name[64];
            std::snprintf(name, sizeof name, "/n%08d/n%08d_%d.JPEG", c, c, i);
            write_file(dir + name, jpeg_of(pattern(20 + int(seed * 37 % 64), 20 + int(seed * 53 % 64), seed)));
        }
}

std::map<std::string, std::string> files_in(const std::string& dir) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(dir)) files[entry.path().filename()] = read_file(entry.path());
    return files;
}

RgbImage ragged_image(int i) { return pattern(8 + i * 7 % 38, 8 + i * 11 % 38, uint32_t(i)); }

void make_ragged(const std::string& dir, ImageLayout layout, int train_images,
                 const std::function<RgbImage(int)>& image_of) {
    Source source;
    source.class_names = {"cat", "dog", "owl"};
    source.files = {"made up"};
    source.sha256 = {std::string(64, '0')};
    fs::create_directories(dir);
    std::vector<ManifestEntry> manifest;
    PixelCounts counts(3);
    const int half = train_images / 2 + 1;  // the first shard is the larger one
    const struct {
        std::string split;
        int shard, shards, first, end;
    } parts[] = {{"train", 0, 2, 0, half}, {"train", 1, 2, half, train_images}, {"test", 0, 1, 100, 113}};
    for (const auto& part : parts) {
        const std::string name = shard_name(part.split, part.shard, part.shards);
        ImageShardWriter writer(dir + "/" + name, layout);
        for (int i = part.first; i < part.end; ++i) {
            RgbImage image = image_of(i);
            const std::string file = jpeg_of(image);
            if (layout == ImageLayout::jpeg) decode_image(bytes_of(file), image);
            writer.add(image, bytes_of(file), i % 3);
            if (part.split == "train") counts.add(image.pixels.data(), image.pixels.size());
        }
        writer.finish({"", part.split, part.shard, part.shards, 0}, source, [](hid_t) {});
        manifest.push_back({name, part.split, part.end - part.first, 0, ""});
    }
    for (ManifestEntry& entry : manifest) {
        const std::string path = dir + "/" + entry.file;
        seal_shard(path, counts.statistics());
        entry.bytes = int64_t(fs::file_size(path));
        entry.sha256 = digest_of_file(Digest::Kind::sha256, path);
    }
    write_manifest(HeldFolder(dir), manifest);
}

}  // namespace convoy::test
