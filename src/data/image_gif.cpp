// Decodes the first picture of a GIF with giflib. Blocks after it are only skipped, to check that
// the file is complete.
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "data/image_file.h"
#include "data/ordered_bytes.h"

namespace convoy {
namespace {

/// The bytes that giflib has yet to read.
struct GifInput {
    FileBytes left;
    bool short_of = false;  ///< giflib asked for more than was left
};

int read_some(GifFileType* gif, GifByteType* to, int bytes) {
    auto* input = static_cast<GifInput*>(gif->UserData);
    const size_t count = std::min(size_t(bytes), input->left.size());
    input->short_of = input->short_of || count < size_t(bytes);
    if (count > 0) std::memcpy(to, input->left.data(), count);
    input->left = input->left.subspan(count);
    return int(count);
}

class GifReader {
public:
    explicit GifReader(FileBytes bytes) : input_{bytes} {
        int error = 0;
        gif_ = DGifOpen(&input_, read_some, &error);
        if (!gif_) fail_with(error);
    }
    ~GifReader() {
        int error = 0;
        DGifCloseFile(gif_, &error);
    }
    GifReader(const GifReader&) = delete;

    /// Reads blocks up to the pixels of the first picture.
    void find_picture() {
        GifRecordType type = UNDEFINED_RECORD_TYPE;
        for (check(DGifGetRecordType(gif_, &type)); type == EXTENSION_RECORD_TYPE;
             check(DGifGetRecordType(gif_, &type)))
            read_extension();
        if (type != IMAGE_DESC_RECORD_TYPE) throw BadImage(ImageFault::damaged, "GIF: has no picture");
        check(DGifGetImageDesc(gif_));
    }
    /// Reads the next row of the picture, in the order of the file.
    void read_row(uint8_t* to) { check(DGifGetLine(gif_, to, gif_->Image.Width)); }

    const GifImageDesc& picture() const { return gif_->Image; }
    int64_t screen_height() const { return std::max(gif_->SHeight, picture().Top + picture().Height); }
    int64_t screen_width() const { return std::max(gif_->SWidth, picture().Left + picture().Width); }
    int transparent() const { return transparent_; }  ///< -1: none
    FileBytes rest() const { return input_.left; }
    const ColorMapObject* table() const { return picture().ColorMap ? picture().ColorMap : gif_->SColorMap; }

private:
    void read_extension() {
        int code = 0;
        GifByteType* block = nullptr;
        check(DGifGetExtension(gif_, &code, &block));
        GraphicsControlBlock control{};
        if (code == GRAPHICS_EXT_FUNC_CODE && block && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
            transparent_ = control.TransparentColor;
        while (block) check(DGifGetExtensionNext(gif_, &block));
    }
    void check(int result) const {
        if (result != GIF_OK) fail_with(gif_->Error);
    }
    [[noreturn]] void fail_with(int error) const {
        if (input_.short_of) throw BadImage(ImageFault::truncated, "GIF: ends too early");
        const char* text = GifErrorString(error);
        throw BadImage(ImageFault::damaged, "GIF: " + std::string(text ? text : "is damaged"));
    }

    GifInput input_;
    GifFileType* gif_ = nullptr;
    int transparent_ = NO_TRANSPARENT_COLOR;
};

/// Returns red, green and blue of each index; black beyond the table's end. Without a table an
/// index is a level of grey, as in Pillow.
std::array<uint8_t, 256 * 3> colours_of(const ColorMapObject* table) {
    std::array<uint8_t, 256 * 3> colours{};
    for (size_t i = 0; i < 256 && !table; ++i) std::fill_n(&colours[i * 3], 3, uint8_t(i));
    for (size_t i = 0; table && i < std::min(size_t(table->ColorCount), size_t(256)); ++i) {
        const GifColorType& colour = table->Colors[i];
        const uint8_t channels[3] = {colour.Red, colour.Green, colour.Blue};
        std::memcpy(&colours[i * 3], channels, 3);
    }
    return colours;
}

/// Returns the offset after a chain of blocks, each of which begins with its length. Throws
/// BadImage if the file ends before the chain does.
uint64_t after_blocks(const OrderedBytes& bytes, uint64_t at) {
    for (; bytes.has(at, 1); at += 1 + bytes.number(at, 1))
        if (bytes.number(at, 1) == 0) return at + 1;
    throw BadImage(ImageFault::truncated, "GIF: ends too early");
}

/// Skips the blocks after the first picture. Returns true if there is another picture. Throws
/// BadImage if the file ends before its trailer. Unknown bytes end the search, because the first
/// picture is complete.
bool has_another(FileBytes rest) {
    constexpr uint64_t extension = 0x21, picture = 0x2c, description = 10;
    const OrderedBytes bytes(rest, true);
    bool another = false;
    for (uint64_t at = 0; bytes.has(at, 1);) {
        const uint64_t kind = bytes.number(at, 1), flags = bytes.number(at + description - 1, 1);
        if (kind != extension && kind != picture) return another;
        another = another || kind == picture;
        const uint64_t table = kind == picture && (flags & 0x80) ? uint64_t(6) << (flags & 7) : 0;
        at = after_blocks(bytes, kind == picture ? at + description + table + 1 : at + 2);
    }
    throw BadImage(ImageFault::truncated, "GIF: ends too early");
}

/// Calls `use(row)` for each row of a picture, in the order of the file.
template <class Use> void for_each_row(const GifImageDesc& picture, const Use& use) {
    constexpr int firsts[] = {0, 4, 2, 1}, steps[] = {8, 8, 4, 2};
    for (int pass = 0; pass < (picture.Interlace ? 4 : 1); ++pass)
        for (int row = firsts[pass]; row < picture.Height; row += picture.Interlace ? steps[pass] : 1) use(row);
}

}  // namespace

void decode_gif(FileBytes bytes, RgbImage& to) {
    GifReader reader(bytes);
    reader.find_picture();
    const GifImageDesc& picture = reader.picture();
    const int64_t height = reader.screen_height(), width = reader.screen_width();
    check_image_size(picture.Height, picture.Width);
    check_image_size(height, width);
    check_density(height, width, height * width, bytes.size(), most_lzw);
    to.note(ImageNote::gif);
    if (!reader.table()) to.note(ImageNote::grey);
    if (reader.transparent() >= 0) to.note(ImageNote::alpha);
    to.set_size(int(height), int(width));
    to.pixels.resize(size_t(height * width) * 3);
    const std::array<uint8_t, 256 * 3> colours = colours_of(reader.table());
    const auto put = [&](uint8_t* pixel, int index) { std::memcpy(pixel, &colours[size_t(index) * 3], 3); };
    for (size_t i = 0; i < to.pixels.size(); i += 3) put(&to.pixels[i], std::max(reader.transparent(), 0));
    std::vector<uint8_t> row(size_t(picture.Width), 0);
    for_each_row(picture, [&](int y) {
        reader.read_row(row.data());
        uint8_t* out = &to.pixels[(size_t(picture.Top + y) * size_t(width) + size_t(picture.Left)) * 3];
        for (const uint8_t index : row) {
            put(out, index);
            out += 3;
        }
    });
    if (has_another(reader.rest())) to.note(ImageNote::several);
}

std::string gif_version() {
    return std::to_string(GIFLIB_MAJOR) + "." + std::to_string(GIFLIB_MINOR) + "." + std::to_string(GIFLIB_RELEASE);
}

}  // namespace convoy
