#include "data/tiff_input.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <new>

namespace convoy {
namespace {

// Limit of one allocation by libtiff, besides the bytes of the file.
constexpr tmsize_t most_library_bytes = 64 << 20;

TiffInput& input_of(void* handle) { return *static_cast<TiffInput*>(handle); }

tmsize_t read_some(thandle_t handle, void* to, tmsize_t count) {
    TiffInput& input = input_of(handle);
    const uint64_t left = input.at < input.bytes.size() ? input.bytes.size() - input.at : 0;
    const uint64_t taken = std::min(left, uint64_t(std::max<tmsize_t>(count, 0)));
    if (taken > 0) std::memcpy(to, input.bytes.data() + input.at, taken);
    input.at += taken;
    return tmsize_t(taken);
}
tmsize_t write_none(thandle_t, void*, tmsize_t) { return 0; }
toff_t seek(thandle_t handle, toff_t offset, int whence) {
    TiffInput& input = input_of(handle);
    return input.at = offset + (whence == SEEK_CUR ? input.at : whence == SEEK_END ? input.bytes.size() : 0);
}
int close_none(thandle_t) { return 0; }
toff_t size_of_file(thandle_t handle) { return input_of(handle).bytes.size(); }
// libtiff only reads through this pointer: it copies what it changes.
int map(thandle_t handle, void** base, toff_t* size) {
    *base = const_cast<uint8_t*>(input_of(handle).bytes.data());
    *size = input_of(handle).bytes.size();
    return 1;
}
void unmap_none(thandle_t, void*, toff_t) {}

int on_error(TIFF*, void* input, const char*, const char* format, va_list values) {
    input_of(input).complain(format, values);
    return 1;  // the global handler, which prints, is not called
}
int on_warning(TIFF*, void* input, const char*, const char* format, va_list values) {
    if (input_of(input).warnings_count) input_of(input).complain(format, values);
    return 1;
}

}  // namespace

void TiffInput::complain(const char* format, va_list values) {
    if (!problem[0]) std::vsnprintf(problem, sizeof problem, format, values);
}

TiffHandle open_tiff(TiffInput& input) {
    // Silences the global handlers, which print messages that concern no particular file.
    static const std::array before = {TIFFSetErrorHandler(nullptr), TIFFSetWarningHandler(nullptr)};
    static_cast<void>(before);
    const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(TIFFOpenOptionsAlloc(),
                                                                                   TIFFOpenOptionsFree);
    if (!options) throw std::bad_alloc();
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), most_library_bytes + tmsize_t(input.bytes.size()));
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, &input);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, &input);
    return {TIFFClientOpenExt("TIFF", "r", &input, read_some, write_none, seek, close_none, size_of_file, map,
                              unmap_none, options.get()),
            TIFFClose};
}

}  // namespace convoy
