#include "supply/row_store.h"

#include <algorithm>

#include "base/error.h"
#include "comm/exchange.h"

namespace convoy {

RowShapes::RowShapes(const SplitInfo& info, std::vector<ImagePlace> places)
    : rows_(info.images),
      height_(info.height),
      width_(info.width),
      pixel_bytes_(size_t(info.channels) * size_of(info.type)),
      all_bytes_(info.image_bytes()),
      places_(std::move(places)) {}

ImagePlace RowShapes::operator[](int64_t i) const {
    if (i == rows_) return {int64_t(all_bytes_), 0, 0};
    if (!places_.empty()) return places_[i];
    return {i * height_ * width_ * int64_t(pixel_bytes_), height_, width_};
}

std::vector<uint8_t> first_rows(Comm& comm, RowStore& store, const RowShapes& shapes, int64_t count) {
    const Groups& groups = store.groups();
    std::vector<uint8_t> pixels(comm.root() ? size_t(shapes[count].offset) : 0);
    Exchange exchange(comm);
    store.begin({}, 0, 0, 1);
    for (int64_t i = 0; i < count; ++i) {  // one by one, so that rows fit in blocks of any size
        std::vector<Exchange::Message> receive, send;
        for (const StoredRow& row : store.rows(0, i, 1)) {
            const size_t bytes = shapes.bytes(row.sample);
            uint8_t* to = pixels.data() + shapes[row.sample].offset;
            auto* from = const_cast<uint8_t*>(store.memory()) + row.offset;
            const int holder = groups.members[row.group].front();
            if (comm.root() && holder == 0) std::copy_n(from, bytes, to);
            if (comm.root() && holder != 0) receive.push_back({holder, to, bytes});
            if (!comm.root() && holder == comm.rank()) send.push_back({0, from, bytes});
        }
        exchange.start(receive, send);
        exchange.finish();
    }
    return pixels;
}

}  // namespace convoy
