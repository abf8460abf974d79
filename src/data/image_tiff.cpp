// Decodes the first page of a TIFF with libtiff. Reads the kinds of TIFF listed here, and names
// others in the error. Converts libtiff's stored samples to pixels itself, because libtiff's
// conversion multiplies colours by alpha.
#include <algorithm>
#include <array>
#include <cstring>

#include "data/tiff_directory.h"
#include "data/tiff_input.h"

namespace convoy {
namespace {

// Limit of channels per pixel, including unused ones. Pictures have up to four, and one or two for
// alpha.
constexpr int most_samples = 8;
constexpr uint64_t always_allowed_tile = 16 << 20;  // bytes

[[noreturn]] void is_not_read(const std::string& what) {
    throw BadImage(ImageFault::other_format, "is a TIFF " + what + ", which is not read");
}

/// Returns the limit of pixel bytes per compressed byte for one of TIFF's compressions; 0 if it is
/// not read. A fax code takes at least one bit per row of `width` pixels.
int64_t growth_of(int compression, int64_t width) {
    switch (compression) {
        case COMPRESSION_NONE: return 1;
        case COMPRESSION_PACKBITS: return 64;
        case COMPRESSION_LZW: return most_lzw;
        case COMPRESSION_DEFLATE:
        case COMPRESSION_ADOBE_DEFLATE: return most_deflate;
        case COMPRESSION_JPEG: return most_pixel_bytes_a_byte;
        case COMPRESSION_CCITTRLE:
        case COMPRESSION_CCITTRLEW:
        case COMPRESSION_CCITTFAX3:
        case COMPRESSION_CCITTFAX4: return width + 7;
        default: return 0;
    }
}

/// Decodes one file.
class TiffReader {
public:
    explicit TiffReader(FileBytes bytes) : input_{bytes}, tiff_(open_tiff(input_)) {
        if (!tiff_) fail_with_problem();
        input_.problem[0] = '\0';  // clears complaints about tags that are not needed
        height_ = field<uint32_t>(TIFFTAG_IMAGELENGTH);
        width_ = field<uint32_t>(TIFFTAG_IMAGEWIDTH);
        check_image_size(height_, width_);
        look_at_compression();
        look_at_samples();
        check_sizes();
    }

    void read(RgbImage& to) {
        to.set_size(int(height_), int(width_));
        const size_t pixels = size_t(height_ * width_);
        const bool stored_so = channels_ == 3 && !multiplied_;
        std::vector<uint8_t>& samples = stored_so ? to.pixels : samples_;
        samples.resize(pixels * size_t(kept()));
        input_.warnings_count = compression_ != COMPRESSION_LZW;  // LZW: libtiff warns of an older form of it
        TIFFIsTiled(tiff_.get()) ? read_tiles(samples) : read_rows(samples);
        to.pixels.resize(pixels * 3);
        if (!stored_so) to_rgb(to.pixels);
        note(to);
        turn_upright(to, orientation());
    }

private:
    template <class T> T field(uint32_t tag, T otherwise = 0) const {
        T value = otherwise;
        return TIFFGetFieldDefaulted(tiff_.get(), tag, &value) ? value : otherwise;
    }
    [[noreturn]] void fail_with_problem() const {
        throw BadImage(ImageFault::damaged, "TIFF: " + std::string(input_.problem[0] ? input_.problem : "is damaged"));
    }

    void look_at_compression() {
        compression_ = field<uint16_t>(TIFFTAG_COMPRESSION);
        growth_ = growth_of(compression_, width_);
        if (growth_ == 0 || !TIFFIsCODECConfigured(compression_))
            is_not_read("of compression " + std::to_string(compression_));
        photometric_ = field<uint16_t>(TIFFTAG_PHOTOMETRIC, UINT16_MAX);
        planar_ = field<uint16_t>(TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
        if (photometric_ != PHOTOMETRIC_YCBCR) return;
        if (compression_ != COMPRESSION_JPEG || planar_) is_not_read("of YCbCr without JPEG");
        TIFFSetField(tiff_.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    }

    void look_at_samples() {
        bits_ = field<uint16_t>(TIFFTAG_BITSPERSAMPLE);
        stored_ = field<uint16_t>(TIFFTAG_SAMPLESPERPIXEL);
        const int format = field<uint16_t>(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
        channels_ = channels_of_photometric();
        if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
            is_not_read("of signed or floating-point samples");
        const bool few_bits = channels_ == 1 && (bits_ == 1 || bits_ == 2 || bits_ == 4);
        const bool many_bits = bits_ == 16 && photometric_ != PHOTOMETRIC_PALETTE;
        if (bits_ != 8 && !few_bits && !many_bits) is_not_read("of " + std::to_string(bits_) + " bits per channel");
        if (stored_ > most_samples) is_not_read("of " + std::to_string(stored_) + " channels");
        if (stored_ < channels_) throw BadImage(ImageFault::damaged, "TIFF: has fewer channels than its colours need");
        uint16_t extras = 0;
        const uint16_t* kinds = nullptr;
        TIFFGetFieldDefaulted(tiff_.get(), TIFFTAG_EXTRASAMPLES, &extras, &kinds);
        const int extra = extras > 0 && kinds && stored_ > channels_ ? kinds[0] : EXTRASAMPLE_UNSPECIFIED;
        has_alpha_ = extra != EXTRASAMPLE_UNSPECIFIED;
        multiplied_ = extra == EXTRASAMPLE_ASSOCALPHA && photometric_ != PHOTOMETRIC_PALETTE && channels_ < 4;
    }

    int channels_of_photometric() const {
        switch (photometric_) {
            case PHOTOMETRIC_MINISWHITE:
            case PHOTOMETRIC_MINISBLACK:
            case PHOTOMETRIC_PALETTE: return 1;
            case PHOTOMETRIC_RGB:
            case PHOTOMETRIC_YCBCR: return 3;
            case PHOTOMETRIC_SEPARATED:
                if (field<uint16_t>(TIFFTAG_INKSET, INKSET_CMYK) != INKSET_CMYK) is_not_read("of other inks than CMYK");
                return 4;
            case UINT16_MAX: throw BadImage(ImageFault::damaged, "TIFF: does not say what its samples are");
            default: is_not_read("of photometric interpretation " + std::to_string(photometric_));
        }
    }

    /// Checks that the file can hold all pixels, and that its parts claim at most twice its bytes.
    void check_sizes() const {
        TIFF* tiff = tiff_.get();
        const bool tiled = TIFFIsTiled(tiff);
        const uint64_t planes = planar_ ? uint64_t(stored_) : 1, size = input_.bytes.size();
        const uint64_t piece = tiled ? TIFFTileSize64(tiff) : TIFFScanlineSize64(tiff);
        const uint64_t pieces = tiled ? TIFFNumberOfTiles(tiff) : uint64_t(height_) * planes;
        if (piece == 0) fail_with_problem();
        constexpr uint64_t most = uint64_t(1) << 40;
        check_density(height_, width_, int64_t(piece > most / std::max<uint64_t>(pieces, 1) ? most : piece * pieces),
                      size_t(size), growth_);
        // A tile may be larger than the image, and is decoded as a whole.
        const auto image_bytes = uint64_t(height_) * uint64_t(width_) * uint64_t(stored_) * uint64_t(bits_) / 8;
        if (tiled && piece > always_allowed_tile + 2 * image_bytes) is_not_read("in tiles far larger than the image");
        uint64_t stored = 0;
        const uint32_t stored_pieces = tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
        for (uint32_t i = 0; i < stored_pieces; ++i) {
            const uint64_t offset = TIFFGetStrileOffset(tiff, i), bytes = TIFFGetStrileByteCount(tiff, i);
            if (offset > size || bytes > size - offset)
                throw BadImage(ImageFault::truncated, "TIFF: ends before its pixels");
            stored += bytes;
        }
        if (stored > 2 * size) throw BadImage(ImageFault::damaged, "TIFF: its parts claim the same bytes");
    }

    /// Returns the number of samples kept per pixel: colours, and alpha if it multiplies them.
    int kept() const { return channels_ + multiplied_; }

    /// Returns sample `i` of a row as 8 bits. A palette's index is not scaled.
    uint8_t sample(const uint8_t* row, size_t i) const {
        if (bits_ == 8) return row[i];
        if (bits_ == 16) {
            uint16_t value = 0;
            std::memcpy(&value, row + 2 * i, 2);
            return uint8_t(value >> 8);
        }
        const size_t bit = i * size_t(bits_);
        const int most = (1 << bits_) - 1, value = row[bit / 8] >> (8 - size_t(bits_) - bit % 8) & most;
        return uint8_t(photometric_ == PHOTOMETRIC_PALETTE ? value : value * 255 / most);
    }

    /// Copies a row of `count` pixels, or of samples of one plane, to its place.
    void put(const uint8_t* row, int64_t y, int64_t x, int64_t count, int plane, std::vector<uint8_t>& to) const {
        const size_t stride = size_t(kept()), step = planar_ ? 1 : size_t(stored_);
        uint8_t* out = &to[size_t(y * width_ + x) * stride] + plane;
        const int each = planar_ ? 1 : kept();
        for (size_t i = 0; i < size_t(count); ++i, out += stride)
            for (int c = 0; c < each; ++c) out[c] = sample(row, i * step + size_t(c));
    }

    void read_rows(std::vector<uint8_t>& to) {
        std::vector<uint8_t> row(size_t(TIFFScanlineSize64(tiff_.get())));
        for (int plane = 0; plane < (planar_ ? kept() : 1); ++plane)
            for (int64_t y = 0; y < height_; ++y) {
                std::fill(row.begin(), row.end(), uint8_t(0));  // clears it, because libtiff may leave a part unset
                if (TIFFReadScanline(tiff_.get(), row.data(), uint32_t(y), uint16_t(plane)) < 0 || input_.problem[0])
                    fail_with_problem();
                put(row.data(), y, 0, width_, plane, to);
            }
    }

    void read_tiles(std::vector<uint8_t>& to) {
        TIFF* tiff = tiff_.get();
        const int64_t high = field<uint32_t>(TIFFTAG_TILELENGTH), wide = field<uint32_t>(TIFFTAG_TILEWIDTH);
        const size_t row_bytes = size_t(TIFFTileRowSize64(tiff));
        std::vector<uint8_t> tile(size_t(TIFFTileSize64(tiff)));
        if (high < 1 || wide < 1 || row_bytes * size_t(high) > tile.size()) fail_with_problem();
        for (int plane = 0; plane < (planar_ ? kept() : 1); ++plane)
            for (int64_t y = 0; y < height_; y += high)
                for (int64_t x = 0; x < width_; x += wide) {
                    std::fill(tile.begin(), tile.end(), uint8_t(0));
                    const uint32_t which = TIFFComputeTile(tiff, uint32_t(x), uint32_t(y), 0, uint16_t(plane));
                    if (TIFFReadEncodedTile(tiff, which, tile.data(), tmsize_t(tile.size())) < 0 || input_.problem[0])
                        fail_with_problem();
                    for (int64_t r = 0; r < std::min(high, height_ - y); ++r)
                        put(&tile[size_t(r) * row_bytes], y + r, x, std::min(wide, width_ - x), plane, to);
                }
    }

    /// Converts the kept samples to pixels.
    void to_rgb(std::vector<uint8_t>& rgb) const {
        if (photometric_ == PHOTOMETRIC_PALETTE) return look_up(rgb);
        const size_t stride = size_t(kept());
        for (size_t i = 0; i < rgb.size() / 3; ++i)
            for (size_t c = 0; c < 3; ++c) {
                const uint8_t* pixel = &samples_[i * stride];
                int value = pixel[channels_ == 1 ? 0 : c];
                const int alpha = multiplied_ ? pixel[channels_] : 0;
                if (alpha > 0) value = std::min(255, 255 * value / alpha);
                if (channels_ == 4) value = ((255 - value) * (255 - pixel[3]) + 127) / 255;
                rgb[i * 3 + c] = uint8_t(photometric_ == PHOTOMETRIC_MINISWHITE ? 255 - value : value);
            }
    }

    void look_up(std::vector<uint8_t>& rgb) const {
        std::array<uint16_t*, 3> colours{};
        if (!TIFFGetField(tiff_.get(), TIFFTAG_COLORMAP, &colours[0], &colours[1], &colours[2]))
            throw BadImage(ImageFault::damaged, "TIFF: has no colour table");
        for (size_t i = 0; i < samples_.size(); ++i)
            for (size_t c = 0; c < 3; ++c) rgb[i * 3 + c] = uint8_t(colours[c][samples_[i]] >> 8);
    }

    int orientation() const {
        const int found = field<uint16_t>(TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
        return found >= 1 && found <= 8 ? found : 1;
    }

    void note(RgbImage& to) const {
        to.note(ImageNote::tiff);
        if (photometric_ == PHOTOMETRIC_MINISBLACK || photometric_ == PHOTOMETRIC_MINISWHITE) to.note(ImageNote::grey);
        if (photometric_ == PHOTOMETRIC_SEPARATED) to.note(ImageNote::cmyk);
        if (bits_ == 16) to.note(ImageNote::sixteen_bits);
        if (has_alpha_) to.note(ImageNote::alpha);
        if (!TIFFLastDirectory(tiff_.get())) to.note(ImageNote::several);
    }

    TiffInput input_;
    TiffHandle tiff_;
    int64_t height_ = 0, width_ = 0, growth_ = 0;
    int compression_ = 0, photometric_ = 0, bits_ = 0;
    int stored_ = 0, channels_ = 0;  // samples per pixel in the file; colours among them
    bool planar_ = false, has_alpha_ = false, multiplied_ = false;
    std::vector<uint8_t> samples_;  // [height, width, kept()]
};

}  // namespace

void decode_tiff(FileBytes bytes, RgbImage& to) {
    check_tiff_directory(bytes);
    TiffReader(bytes).read(to);
}

std::string tiff_version() {
    // The text is "LIBTIFF, Version 4.5.0", then lines of copyright.
    const std::string text = TIFFGetVersion();
    const size_t from = text.find_first_of("0123456789");
    return from == std::string::npos ? text : text.substr(from, text.find_first_not_of("0123456789.", from) - from);
}

}  // namespace convoy
