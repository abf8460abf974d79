#include "data/hdf5_chunk_index.h"

#include <algorithm>
#include <bit>

#include "data/hdf5_dense.h"

namespace convoy::h5 {
namespace {

constexpr uint64_t filtered = 1, page_bits = 10, page = 1 << page_bits;

/// Returns the bytes of a chunk's entry: its address, its size in the file, and the filters that it
/// skipped.
size_t entry_bytes(const ChunkIndex& index) {
    const size_t log2 = size_t(std::bit_width(index.chunk_bytes)) - 1;
    return 8 + std::min<size_t>(8, 1 + (log2 + 8) / 8) + 4;
}

/// Records the bytes of the chunk that an entry names. Blocks::take() refuses bytes that another
/// entry names, too. HDF5 compares no checksum of a chunk that skipped its filter.
void take_chunk(Blocks& blocks, Fields entry, size_t width) {
    const uint64_t address = entry.number(8), bytes = entry.number(width - 12);
    if (address == no_address) return;
    entry.expect_number(0, 4, "a chunk without a checksum");
    expect(bytes > 0, "a chunk of no bytes");
    blocks.take(address, bytes, "", 0);
}

void take_chunks(Blocks& blocks, std::string_view entries, size_t width) {
    for (Fields fields(entries); fields.left() >= width;) take_chunk(blocks, Fields(fields.take(width)), width);
}

void check_begin(Fields& fields, uint64_t array) {
    fields.take(4);
    fields.expect_number(0, 1, "a chunk index's version");
    fields.expect_number(filtered, 1, "a chunk index's kind");
    if (array != no_address) fields.expect_number(array, 8, "a chunk index's block");
}

/// Returns the bytes of a block: `before` bytes, the entries and a checksum. If there is more than
/// one page, each page has a checksum, too.
uint64_t block_bytes(uint64_t before, uint64_t entries, size_t entry) {
    const uint64_t pages = entries > page ? (entries + page - 1) / page : 0;
    return before + entries * entry + 4 + pages * 4;
}

/// Records the chunks of a block's pages. HDF5 uses only the pages whose bit in `marks` is set; the
/// first page's bit is `mark`.
void take_pages(Blocks& blocks, uint64_t address, uint64_t entries, std::string_view marks, uint64_t mark,
                size_t width) {
    for (uint64_t first = 0; first < entries; first += page, ++mark) {
        const bool used = (uint8_t(marks[mark / 8]) << mark % 8 & 128) != 0;
        const uint64_t bytes = std::min(page, entries - first) * width;
        if (used) take_chunks(blocks, blocks.look_at(address, bytes), width);
        address += bytes + 4;
    }
}

void check_fixed(Blocks& blocks, const ChunkIndex& index) {
    const std::string header = blocks.take(index.address, 28, "FAHD");
    Fields fields(header);
    check_begin(fields, no_address);
    fields.expect_number(entry_bytes(index), 1, "a chunk index's entries");
    fields.expect_number(page_bits, 1, "a chunk index's pages");
    fields.expect_number(index.chunks, 8, "a chunk index's number of chunks");
    const uint64_t block = fields.number(8);
    if (block == no_address) return expect(index.chunks <= page, "a chunk index's number of chunks");
    const uint64_t pages = index.chunks > page ? (index.chunks + page - 1) / page : 0;
    const uint64_t marks = (pages + 7) / 8, own = pages == 0 ? index.chunks : 0;
    const size_t width = entry_bytes(index);
    const std::string begin =
        blocks.take(block, block_bytes(14 + marks, index.chunks, width), "FADB", 14 + marks + own * width);
    Fields of_block(begin);
    check_begin(of_block, index.address);
    const std::string_view used = of_block.take(marks);
    take_chunks(blocks, of_block.take(own * width), width);
    if (pages > 0) take_pages(blocks, block + 14 + marks + 4, index.chunks, used, 0, width);
}

/// An extensible array. An index block has the first four entries itself. The others are in 29
/// groups of data blocks: group u has 2^(u/2) blocks of 16 * 2^((u+1)/2) entries. The index block
/// names the blocks of the first four groups. Each later group has a separate block that names its
/// blocks.
class ExtensibleArray {
public:
    ExtensibleArray(Blocks& blocks, const ChunkIndex& index)
        : blocks_(blocks), index_(index), entry_(entry_bytes(index)) {}

    void check() {
        const std::string header = blocks_.take(index_.address, 72, "EAHD");
        Fields fields(header);
        check_begin(fields, no_address);
        fields.expect_number(entry_, 1, "a chunk index's entries");
        fields.expect_number(32, 1, "a chunk index's size");
        fields.expect_number(own_entries, 1, "a chunk index's blocks");
        fields.expect_number(first_entries, 1, "a chunk index's blocks");
        fields.expect_number(4, 1, "a chunk index's blocks");
        fields.expect_number(page_bits, 1, "a chunk index's pages");
        fields.take(32);  // counts and sizes of blocks, which HDF5 does not use
        const uint64_t end = fields.number(8);
        fields.take(8);
        const uint64_t block = fields.number(8);
        if (block != no_address) check_index_block(block);
        // HDF5 reads the first `end` entries, even those that no block holds.
        expect(end <= entries_, "a chunk index's number of chunks");
        blocks_.count_chunks(end);
    }

private:
    static constexpr uint64_t own_entries = 4, first_entries = 16, groups = 29, early_groups = 4;

    static uint64_t blocks_of(uint64_t group) { return uint64_t(1) << group / 2; }
    static uint64_t entries_of(uint64_t group) { return first_entries << (group + 1) / 2; }

    void check_index_block(uint64_t address) {
        const uint64_t bytes = 14 + own_entries * entry_ + 8 * (6 + groups - early_groups) + 4;
        const std::string block = blocks_.take(address, bytes, "EAIB");
        Fields fields(block);
        check_begin(fields, index_.address);
        take_chunks(blocks_, fields.take(own_entries * entry_), entry_);
        entries_ += own_entries;
        uint64_t first = 0;
        for (uint64_t group = 0; group < groups; ++group) {
            if (group < early_groups)
                check_data_blocks(fields, group, "");
            else if (const uint64_t named = fields.number(8); named != no_address)
                check_group_block(named, group, first);
            first += blocks_of(group) * entries_of(group);
        }
    }
    void check_group_block(uint64_t address, uint64_t group, uint64_t first) {
        const uint64_t pages = entries_of(group) > page ? entries_of(group) / page : 0;
        const uint64_t marks = blocks_of(group) * ((pages + 7) / 8);  // a bit for each page that is in use
        const std::string block = blocks_.take(address, 18 + marks + 8 * blocks_of(group) + 4, "EASB");
        Fields fields(block);
        check_begin(fields, index_.address);
        fields.expect_number(first, 4, "a chunk index's block");
        const std::string_view used = fields.take(marks);
        check_data_blocks(fields, group, used);
    }
    /// Does not check the position that a data block records, because HDF5 does not use it.
    void check_data_blocks(Fields& addresses, uint64_t group, std::string_view used) {
        const uint64_t entries = entries_of(group), pages = entries > page ? entries / page : 0;
        const uint64_t own = pages == 0 ? entries * entry_ : 0;
        for (uint64_t i = 0; i < blocks_of(group); ++i) {
            const uint64_t address = addresses.number(8);
            if (address == no_address) continue;
            const std::string begin = blocks_.take(address, block_bytes(18, entries, entry_), "EADB", 18 + own);
            Fields fields(begin);
            check_begin(fields, index_.address);
            fields.take(4);
            take_chunks(blocks_, fields.take(own), entry_);
            if (pages > 0) take_pages(blocks_, address + 18 + 4, entries, used, i * pages, entry_);
            entries_ += entries;
        }
    }

    Blocks& blocks_;
    const ChunkIndex& index_;
    const size_t entry_;
    uint64_t entries_ = 0;  // number of entries in the blocks so far
};

}  // namespace

void check_chunk_index(Blocks& blocks, const ChunkIndex& index) {
    constexpr size_t node_bytes = 2048;
    expect(index.chunk_bytes > 0 && index.kind >= 1 && index.kind <= 5 && index.kind != 2, "a chunk index");
    expect(index.kind != 1 || index.chunks == 1, "an index of one chunk");
    if (index.kind == 1) {
        blocks.take(index.address, index.stored_bytes, "", 0);
        return;
    }
    if (index.kind == 3) return check_fixed(blocks, index);
    if (index.kind == 4) return ExtensibleArray(blocks, index).check();
    each_record(blocks, index.address, Record::filtered_chunk, node_bytes, entry_bytes(index) + 8 * index.rank,
                [&](Fields record) { take_chunk(blocks, record, entry_bytes(index)); });
}

}  // namespace convoy::h5
