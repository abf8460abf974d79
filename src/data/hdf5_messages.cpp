#include "data/hdf5_messages.h"

namespace convoy::h5 {
namespace {

constexpr uint64_t most_elements = uint64_t(1) << 62;

enum Class : unsigned {
    integer = 0,
    floating = 1,
    text = 3,
    compound = 6,
    reference = 7,
    enumeration = 8,
    sequence = 9,
};

/// Reads a name that ends with a zero byte. Before version 3, zero bytes pad it to a multiple of
/// eight.
void take_name(Fields& fields, unsigned version) {
    size_t letters = 1;
    while (fields.number(1) != 0) ++letters;
    if (version < 3) fields.take((8 - letters % 8) % 8);
}

uint64_t take_type(Fields& fields, int depth);

void take_members(Fields& fields, uint64_t members, uint64_t bytes, unsigned version, int depth) {
    expect(members > 0, "a type without members");
    for (uint64_t i = 0; i < members; ++i) {
        take_name(fields, version);
        const uint64_t offset = fields.number(version < 3 ? 4 : bytes_for(bytes));
        if (version == 1) {
            fields.expect_number(0, 1, "a type of arrays");
            fields.take(27);
        }
        const uint64_t member = take_type(fields, depth);
        expect(member <= bytes && offset <= bytes - member, "a member of a type");
    }
}

/// Reads a type. It may consist of other types, to a depth of three.
uint64_t take_type(Fields& fields, int depth) {
    constexpr int deepest = 3;
    const uint64_t first = fields.number(1), flags = fields.number(3), bytes = fields.number(4), count = flags & 0xffff;
    const unsigned version = unsigned(first >> 4);
    expect(depth < deepest && version >= 1 && version <= 4 && bytes >= 1 && bytes < uint64_t(1) << 31, "a type");
    switch (first & 15) {
        case integer: fields.take(4); break;
        case floating: fields.take(12); break;
        case text: break;
        case compound: take_members(fields, count, bytes, version, depth + 1); break;
        case reference: expect((flags & 15) <= 1 && (bytes == 8 || bytes == 12), "a type of references"); break;
        case enumeration:
            expect(take_type(fields, depth + 1) == bytes && count > 0, "an enumeration");
            for (uint64_t i = 0; i < count; ++i) take_name(fields, version);
            fields.take(count * bytes);
            break;
        case sequence:
            expect(bytes == 16 && (flags & 15) <= 1, "a type of variable length");
            take_type(fields, depth + 1);
            break;
        default: expect(false, "a type");
    }
    return bytes;
}

}  // namespace

RawExtent take_extent(Fields& fields) {
    const uint64_t version = fields.number(1), rank = fields.number(1), flags = fields.number(1);
    expect((version == 1 || version == 2) && rank <= 32 && flags <= 1, "an extent");
    const uint64_t kind = fields.number(1);  // 0 scalar, 1 with sides, 2 empty
    if (version == 1) fields.take(4);
    expect(version == 1 || (kind <= 2 && (kind == 1) == (rank > 0)), "an extent");
    RawExtent extent{.dims = {}, .most = {}, .count = version == 2 && kind == 2 ? 0u : 1u};
    for (uint64_t i = 0; i < rank; ++i) {
        extent.dims.push_back(fields.number(8));
        const uint64_t side = extent.dims.back();
        extent.count = side == 0 || extent.count <= most_elements / side ? extent.count * side : most_elements;
    }
    extent.most = extent.dims;
    for (uint64_t i = 0; i < rank && flags == 1; ++i) {
        extent.most[i] = fields.number(8);
        expect(extent.most[i] >= extent.dims[i], "an extent");
    }
    return extent;
}

uint64_t take_type(Fields& fields) { return take_type(fields, 0); }

void check_attribute(Fields fields) {
    const uint64_t version = fields.number(1), flags = fields.number(1);
    expect(version >= 1 && version <= 3 && (version == 1 || flags == 0), "an attribute of a committed type");
    const uint64_t name_bytes = fields.number(2), type_bytes = fields.number(2), extent_bytes = fields.number(2);
    if (version == 3) fields.take(1);
    const auto take = [&](uint64_t bytes) {
        const std::string_view part = fields.take(bytes);
        if (version == 1) fields.take((8 - bytes % 8) % 8);
        return part;
    };
    const std::string_view name = take(name_bytes);
    expect(name_bytes > 1 && name.find('\0') == name_bytes - 1, "an attribute's name");
    Fields type(take(type_bytes)), extent(take(extent_bytes));
    const uint64_t bytes = take_type(type), count = take_extent(extent).count;
    expect(count <= fields.left() / bytes, "an attribute that is shorter than its extent");
}

}  // namespace convoy::h5
