// Names and lengths follow HDF5's format specification, version 3.0: "Version 2 Data Object Header
// Prefix" and "Data Object Header Messages".
#include "data/hdf5_object.h"

#include <algorithm>

#include "data/hdf5_chunk_index.h"
#include "data/hdf5_dense.h"
#include "data/hdf5_messages.h"
#include "data/hdf5_structure.h"

namespace convoy::h5 {
namespace {

enum Message : unsigned {
    nothing = 0x00,
    extent = 0x01,
    links = 0x02,
    type = 0x03,
    fill_value = 0x05,
    a_link = 0x06,
    layout = 0x08,
    group = 0x0a,
    filters = 0x0b,
    attribute = 0x0c,
    continuation = 0x10,
    attributes = 0x15,
    references = 0x16,
};

constexpr const char *other_parts = "parts that no file of Convoy has, such as external storage or a committed type",
                     *other_storage = "not stored in plain chunks with Fletcher-32 checksums";

constexpr uint64_t bit(unsigned message) { return uint64_t(1) << message; }

constexpr uint64_t of_groups = bit(links), of_data_sets = bit(extent) | bit(type) | bit(layout) | bit(filters);
constexpr uint64_t any_number = bit(nothing) | bit(a_link) | bit(attribute) | bit(continuation);

struct Part {
    uint64_t address, bytes;
};

class Object {
public:
    explicit Object(Blocks& blocks) : blocks_(blocks) {}

    std::vector<uint64_t> read(uint64_t address) {
        read_header(address);
        for (size_t i = 0; i < more_.size(); ++i) {  // a part may name further parts
            expect(i < most_parts && more_[i].bytes > 8 && more_[i].bytes <= most_bytes, "a header of many parts");
            const std::string block = blocks_.take(more_[i].address, more_[i].bytes, "OCHK");
            read_messages(std::string_view(block).substr(4, block.size() - 8));
        }
        if ((seen_ & bit(layout)) != 0) {
            expect((seen_ & bit(filters)) != 0, other_storage);
            expect((seen_ & of_groups) == 0 && (seen_ & of_data_sets) == of_data_sets, other_parts);
            check_chunks();
        } else {
            expect((seen_ & of_groups) != 0 && (seen_ & of_data_sets) == 0, other_parts);
        }
        if (attributes_.heap != no_address) each_dense_attribute(blocks_, attributes_, check_attribute);
        if (links_.heap != no_address) each_dense_link(blocks_, links_, [&](Fields link) { read_link(link); });
        return std::move(children_);
    }

private:
    static constexpr size_t most_parts = 256, most_messages = 4096;
    static constexpr uint64_t most_bytes = 1 << 20;  // limit for the messages of one block

    void read_header(uint64_t address) {
        constexpr uint64_t tracked = 4, indexed = 8, phases = 16, times = 32;
        constexpr uint64_t known = 3 | tracked | indexed | phases | times;
        const std::string begin = blocks_.look_at(address, 6);
        expect(begin.starts_with("OHDR\2"), "damaged, or in an old format of HDF5");
        const uint64_t flags = uint8_t(begin[5]);
        expect((flags & ~known) == 0, "a header's flags");
        tracked_ = (flags & tracked) != 0;
        const size_t width = size_t(1) << (flags & 3);
        const uint64_t before = 6 + ((flags & times) != 0 ? 16 : 0) + ((flags & phases) != 0 ? 4 : 0) + width;
        const std::string size = blocks_.look_at(address + before - width, width);
        const uint64_t bytes = Fields(size).number(width);
        expect(bytes <= most_bytes, "a header of many bytes");
        const std::string block = blocks_.take(address, before + bytes + 4, "OHDR");
        read_messages(std::string_view(block).substr(before, bytes));
    }

    void read_messages(std::string_view bytes) {
        constexpr uint64_t shared = 2, known_flags = 1 | 4;  // allowed flags: constant, not to be shared
        Fields fields(bytes);
        const size_t header = tracked_ ? 6 : 4;
        while (fields.left() >= header) {
            const unsigned kind = unsigned(fields.number(1));
            const uint64_t length = fields.number(2), flags = fields.number(1);
            if (tracked_) fields.take(2);
            expect(++messages_ <= most_messages, "a header of many messages");
            expect((flags & shared) == 0 && (flags & ~known_flags) == 0 && kind <= references, other_parts);
            expect((seen_ & bit(kind) & ~any_number) == 0, "a message that is there twice");
            seen_ |= bit(kind);
            read_message(kind, Fields(fields.take(length)));
        }
    }

    void read_message(unsigned kind, Fields fields) {
        switch (kind) {
            case nothing: return;
            case extent: extent_ = take_extent(fields); return;
            case links: return read_store(fields, 8, links_);
            case type: type_bytes_ = take_type(fields); return;
            case fill_value: return read_fill_value(fields);
            case a_link: return read_link(fields);
            case layout: return read_layout(fields);
            case group: return read_group(fields);
            case filters: return read_filters(fields);
            case attribute: return check_attribute(fields);
            case continuation: {
                const uint64_t address = fields.number(8);
                more_.push_back({address, fields.number(8)});
                return;
            }
            case attributes: return read_store(fields, 2, attributes_);
            case references:
                fields.expect_number(0, 1, "a header's references");
                fields.take(4);
                return;
            default: expect(false, other_parts);
        }
    }

    /// Reads the addresses of attributes or links. The highest creation index has `width` bytes.
    static void read_store(Fields fields, size_t width, DenseStore& store) {
        constexpr uint64_t tracked = 1, indexed = 2;
        fields.expect_number(0, 1, "a store's version");
        const uint64_t flags = fields.number(1);
        expect((flags & ~(tracked | indexed)) == 0, "a store's flags");
        if ((flags & tracked) != 0) fields.take(width);
        store.heap = fields.number(8);
        store.by_name = fields.number(8);
        if ((flags & indexed) != 0) store.by_order = fields.number(8);
        expect((store.heap == no_address) == (store.by_name == no_address), "a store's addresses");
        expect((flags & indexed) == 0 || (store.heap == no_address) == (store.by_order == no_address),
               "a store's addresses");
    }

    void read_link(Fields fields) {
        constexpr uint64_t has_kind = 8, has_order = 4, has_letters = 16, hard = 0, soft = 1, external = 64;
        fields.expect_number(1, 1, "a link's version");
        const uint64_t flags = fields.number(1), kind = (flags & has_kind) != 0 ? fields.number(1) : hard;
        expect(flags < 32 && (kind == hard || kind == soft || kind == external), "a link");
        if ((flags & has_order) != 0) fields.take(8);
        if ((flags & has_letters) != 0) expect(fields.number(1) <= 1, "a link's name");
        const uint64_t name_bytes = fields.number(size_t(1) << (flags & 3));
        expect(name_bytes > 0 && fields.take(name_bytes).find('\0') == std::string_view::npos, "a link's name");
        if (kind == hard) {
            children_.push_back(fields.number(8));
        } else {
            const uint64_t bytes = fields.number(2);
            expect(bytes > 0 && fields.take(bytes).size() == bytes, "a link");
        }
    }

    void read_fill_value(Fields fields) {
        constexpr uint64_t undefined = 16, defined = 32;
        fields.expect_number(3, 1, "a fill value's version");
        const uint64_t flags = fields.number(1);
        expect(flags < 64 && (flags & (undefined | defined)) != (undefined | defined), "a fill value");
        if ((flags & defined) != 0) fields.take(fill_bytes_ = fields.number(4));
    }

    static void read_group(Fields fields) {
        fields.expect_number(0, 1, "a group's version");
        const uint64_t flags = fields.number(1);
        expect(flags < 4, "a group's flags");
        fields.take(4 * (flags & 1) + 2 * (flags & 2));
    }

    static void read_filters(Fields fields) {
        constexpr uint64_t fletcher32 = 3;
        fields.expect_number(2, 1, other_storage);
        fields.expect_number(1, 1, other_storage);
        fields.expect_number(fletcher32, 2, other_storage);
        expect(fields.number(2) <= 1, other_storage);
        fields.expect_number(0, 2, other_storage);
    }

    void read_layout(Fields fields) {
        constexpr uint64_t chunked = 2, one_filtered = 2;
        fields.expect_number(4, 1, other_storage);
        fields.expect_number(chunked, 1, other_storage);
        const uint64_t flags = fields.number(1), sides = fields.number(1), width = fields.number(1);
        expect(sides >= 2 && sides <= 33 && width >= 1 && width <= 8, "chunks");
        for (uint64_t i = 0; i < sides; ++i) sides_.push_back(fields.number(width));
        index_.kind = unsigned(fields.number(1));
        index_.rank = size_t(sides - 1);
        expect(flags == (index_.kind == 1 ? one_filtered : 0), other_storage);
        uint64_t skipped_filters = 0;
        // The rest depends on the kind of index: parameters that HDF5 always sets to these values.
        switch (index_.kind) {
            case 1:
                index_.stored_bytes = fields.number(8);
                skipped_filters = fields.number(4);
                break;
            case 3: fields.expect_number(10, 1, "a chunk index"); break;
            case 4: fields.expect_number(0x0a'10'04'04'20, 5, "a chunk index"); break;
            case 5: fields.expect_number(0x28'64'00'00'08'00, 6, "a chunk index"); break;
            default: expect(false, other_storage);
        }
        index_.address = fields.number(8);
        expect(skipped_filters == 0 || index_.address == no_address, "a chunk without a checksum");
    }

    void check_chunks() {
        constexpr uint64_t most_chunks = uint64_t(1) << 31;
        expect(extent_.dims.size() == index_.rank && sides_.back() == type_bytes_, "chunks of another shape");
        expect(fill_bytes_ == 0 || fill_bytes_ == type_bytes_, "a fill value of another type");
        index_.chunk_bytes = 1;
        for (const uint64_t side : sides_) {
            expect(side > 0 && side <= most_chunk_bytes / index_.chunk_bytes,
                   "stored in chunks of no bytes, or of more than 64 MiB");
            index_.chunk_bytes *= side;
        }
        if (index_.address == no_address) return;  // no chunk was written
        index_.chunks = 1;
        for (size_t i = 0; i < index_.rank; ++i) {
            const bool limited = extent_.most[i] != no_address;
            const uint64_t rows = limited ? extent_.most[i] : extent_.dims[i];
            const uint64_t chunks = rows / sides_[i] + (rows % sides_[i] != 0 ? 1 : 0);
            expect(chunks == 0 || index_.chunks <= most_chunks / chunks, "too many chunks");
            index_.chunks *= chunks;
        }
        if (index_.kind == 3) blocks_.count_chunks(index_.chunks);
        const auto unlimited = std::count(extent_.most.begin(), extent_.most.end(), no_address);
        // Only a B-tree (kind 5) could hold two chunks of one place. HDF5 uses it if several sides
        // grow.
        const bool fits = index_.kind == 5 ? unlimited > 1 : unlimited == (index_.kind == 4 ? 1 : 0);
        expect(fits, "a chunk index of another kind");
        check_chunk_index(blocks_, index_);
    }

    Blocks& blocks_;
    uint64_t seen_ = 0;  // a bit for each kind of message read
    size_t messages_ = 0;
    bool tracked_ = false;  // messages record the order in which attributes were made
    std::vector<Part> more_;
    std::vector<uint64_t> children_;
    DenseStore links_, attributes_;
    RawExtent extent_;
    uint64_t type_bytes_ = 0, fill_bytes_ = 0;
    std::vector<uint64_t> sides_;  // sides of a chunk, then the bytes of an element
    ChunkIndex index_;
};

}  // namespace

std::vector<uint64_t> check_object(Blocks& blocks, uint64_t address) { return Object(blocks).read(address); }

}  // namespace convoy::h5
