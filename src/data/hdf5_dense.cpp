#include "data/hdf5_dense.h"

#include <vector>

namespace convoy::h5 {
namespace {

constexpr size_t dense_node_bytes = 512;

/// Reads one tree.
class Tree {
public:
    Tree(Blocks& blocks, Record kind, size_t node_bytes, size_t record_bytes, const std::function<void(Fields)>& visit)
        : blocks_(blocks), kind_(kind), node_bytes_(node_bytes), record_bytes_(record_bytes), visit_(visit) {}

    void read(uint64_t address) {
        constexpr size_t header_bytes = 38;
        constexpr uint64_t deepest = 5, split = 100, merge = 40;
        const std::string header = blocks_.take(address, header_bytes, "BTHD");
        Fields fields(header);
        fields.take(4);
        fields.expect_number(0, 1, "a tree's version");
        fields.expect_number(uint64_t(kind_), 1, "a tree's kind");
        fields.expect_number(node_bytes_, 4, "a tree's nodes");
        fields.expect_number(record_bytes_, 2, "a tree's records");
        const uint64_t depth = fields.number(2);
        expect(depth <= deepest, "a tree's depth");
        fields.expect_number(split, 1, "a tree's nodes");
        fields.expect_number(merge, 1, "a tree's nodes");
        const uint64_t root = fields.number(8), records = fields.number(2);
        left_ = fields.number(8);
        plan(depth);
        if (root != no_address)
            node(root, records, depth);
        else
            expect(records == 0, "a tree's root");
        expect(left_ == 0, "a tree's number of records");
    }

private:
    /// The limits of nodes at one level; level 0 are the leaves.
    struct Level {
        uint64_t records, below;  ///< most records in a node; in a node and all below it
        size_t count_bytes;       ///< bytes of a number up to `below`
    };

    void plan(uint64_t depth) {
        constexpr size_t around = 10;  // bytes of signature, version, kind and checksum
        const uint64_t leaf = (node_bytes_ - around) / record_bytes_;
        levels_.push_back({leaf, leaf, 0});
        for (uint64_t i = 1; i <= depth; ++i) {
            const size_t pointer = 8 + bytes_for(leaf) + levels_.back().count_bytes;
            const uint64_t records = (node_bytes_ - around - pointer) / (record_bytes_ + pointer);
            const uint64_t below = (records + 1) * levels_.back().below + records;
            levels_.push_back({records, below, bytes_for(below)});
        }
    }

    /// Reads a node and all below it. The recursion is as deep as the tree.
    void node(uint64_t address, uint64_t records, uint64_t level) {
        expect(records > 0 && records <= levels_[level].records && records <= left_, "a tree's node");
        const std::string block = blocks_.take(address, node_bytes_, level > 0 ? "BTIN" : "BTLF");
        Fields fields(block);
        fields.take(4);
        fields.expect_number(0, 1, "a node's version");
        fields.expect_number(uint64_t(kind_), 1, "a node's kind");
        left_ -= records;
        for (uint64_t i = 0; i < records; ++i) visit_(Fields(fields.take(record_bytes_)));
        for (uint64_t i = 0; level > 0 && i <= records; ++i) {
            const uint64_t child = fields.number(8), its_records = fields.number(bytes_for(levels_[0].records));
            const uint64_t before = left_,
                           all = level > 1 ? fields.number(levels_[level - 1].count_bytes) : its_records;
            node(child, its_records, level - 1);
            expect(before - left_ == all, "a node's number of records");
        }
    }

    Blocks& blocks_;
    const Record kind_;
    const size_t node_bytes_, record_bytes_;
    const std::function<void(Fields)>& visit_;
    std::vector<Level> levels_;
    uint64_t left_ = 0;  // records that the header counts and that were not read yet
};

/// The form of the heaps that HDF5 makes for attributes, or for links.
struct HeapForm {
    size_t id_bytes, offset_bytes;
    uint64_t first_block;
};

constexpr HeapForm attribute_heap = {8, 5, 1024}, link_heap = {7, 4, 512};

/// A fractal heap: rows of four blocks. Block sizes double from row to row, except that the first
/// two rows are alike.
class Heap {
public:
    Heap(Blocks& blocks, uint64_t address, const HeapForm& form) : blocks_(blocks), form_(form), address_(address) {
        constexpr size_t header_bytes = 146;
        const std::string header = blocks.take(address, header_bytes, "FRHP");
        Fields fields(header);
        fields.take(4);
        fields.expect_number(0, 1, "a heap's version");
        fields.expect_number(form.id_bytes, 2, "a heap's ids");
        fields.expect_number(0, 2, "a heap's filters");
        fields.expect_number(2, 1, "a heap's flags");  // blocks have checksums
        fields.expect_number(largest_object, 4, "a heap's objects");
        fields.take(8);
        const uint64_t huge = fields.number(8);
        fields.take(16);  // free space
        const uint64_t bytes = fields.number(8), stored = fields.number(8);
        fields.take(48);  // counts
        fields.expect_number(row_width, 2, "a heap's rows");
        fields.expect_number(form.first_block, 8, "a heap's blocks");
        fields.expect_number(largest_block, 8, "a heap's blocks");
        fields.expect_number(form.offset_bytes * 8, 2, "a heap's size");
        fields.expect_number(1, 2, "a heap's rows");
        const uint64_t root = fields.number(8), rows = fields.number(2);
        if (root != no_address) rows == 0 ? direct(root, 0, form.first_block) : indirect(root, rows);
        expect(bytes == end_ && stored <= bytes, "a heap's size");
        if (huge != no_address) note_huge(huge);
    }

    /// Returns the bytes of the file that belong to this heap: at least those of all its objects.
    uint64_t bytes() const { return bytes_; }

    /// Returns the object that an id names.
    std::string object(std::string_view id) const {
        constexpr uint64_t managed = 0x00, huge = 0x10;
        Fields fields(id);
        const uint64_t kind = fields.number(1);
        if (kind == huge) {
            const auto found = huge_.find(fields.number(form_.id_bytes - 1));
            expect(found != huge_.end(), "an object in a heap");
            return blocks_.look_at(found->second.first, found->second.second);
        }
        expect(kind == managed, "an object in a heap");
        const uint64_t offset = fields.number(form_.offset_bytes), bytes = fields.number(2);
        const auto after = direct_.upper_bound(offset);
        expect(after != direct_.begin() && bytes > 0 && bytes <= largest_object, "an object in a heap");
        const auto& [first, block] = *std::prev(after);
        const uint64_t at = offset - first;
        expect(at >= before_objects() && at < block.size() && bytes <= block.size() - at, "an object in a heap");
        return block.substr(at, bytes);
    }

private:
    static constexpr uint64_t row_width = 4, largest_block = 64 << 10, largest_object = 4 << 10;
    /// Returns the bytes before the objects of a block: signature, version, address of the heap,
    /// offset and checksum.
    size_t before_objects() const { return 4 + 1 + 8 + form_.offset_bytes + 4; }

    void check_begin(Fields& fields, uint64_t offset) const {
        fields.take(4);
        fields.expect_number(0, 1, "a heap block's version");
        fields.expect_number(address_, 8, "a heap block's heap");
        fields.expect_number(offset, form_.offset_bytes, "a heap block's place");
    }
    void direct(uint64_t address, uint64_t offset, uint64_t bytes) {
        end_ = offset + bytes;
        if (address == no_address) return;
        const std::string& block = direct_.emplace(offset, blocks_.take(address, bytes, "FHDB")).first->second;
        Fields fields(block);
        check_begin(fields, offset);
        bytes_ += bytes;
    }
    /// Reads a root that names rows of blocks. Rows of blocks larger than largest_block must be
    /// empty.
    void indirect(uint64_t address, uint64_t rows) {
        constexpr uint64_t most_rows = 32;
        expect(rows <= most_rows, "a heap's rows");
        const size_t bytes = 4 + 1 + 8 + form_.offset_bytes + 8 * row_width * rows + 4;
        const std::string block = blocks_.take(address, bytes, "FHIB");
        Fields fields(block);
        check_begin(fields, 0);
        uint64_t offset = 0, row_bytes = form_.first_block;
        for (uint64_t row = 0; row < rows; ++row) {
            if (row > 1) row_bytes *= 2;
            for (uint64_t i = 0; i < row_width; ++i, offset += row_bytes) {
                const uint64_t child = fields.number(8);
                expect(row_bytes <= largest_block || child == no_address, "a heap of more than 500 KiB");
                direct(child, offset, row_bytes);
            }
        }
    }
    /// Records the objects that are larger than largest_object.
    void note_huge(uint64_t address) {
        each_record(blocks_, address, Record::huge_object, dense_node_bytes, 24, [&](Fields record) {
            const uint64_t at = record.number(8), bytes = record.number(8), id = record.number(8);
            blocks_.take(at, bytes, "", /*wanted=*/0);
            bytes_ += bytes;
            expect(huge_.emplace(id, std::pair(at, bytes)).second, "an object in a heap");
        });
    }

    Blocks& blocks_;
    const HeapForm form_;
    const uint64_t address_;
    uint64_t end_ = 0;  // end of the last block, as an offset in the heap
    uint64_t bytes_ = 0;
    std::map<uint64_t, std::string> direct_;                  // blocks by offset
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> huge_;  // address and bytes of objects by id
};

/// The records of both trees. `name_bytes` and `order_bytes` are their sizes. `before_name_id` and
/// `before_order_id` are the bytes before the id of the object in the heap.
struct DenseForm {
    HeapForm heap;
    Record by_name;
    size_t name_bytes, before_name_id;
    Record by_order;
    size_t order_bytes, before_order_id;
};

constexpr DenseForm attribute_form = {
    attribute_heap, Record::attribute_by_name, 17, 0, Record::attribute_by_order, 13, 0};
constexpr DenseForm link_form = {link_heap, Record::link_by_name, 11, 4, Record::link_by_order, 15, 8};

void each_dense(Blocks& blocks, const DenseStore& store, const DenseForm& form,
                const std::function<void(Fields)>& visit) {
    const Heap heap(blocks, store.heap, form.heap);
    const auto read = [&](size_t before_id) {
        return [&, before_id, left = heap.bytes()](Fields record) mutable {
            record.take(before_id);
            const std::string object = heap.object(record.take(form.heap.id_bytes));
            // Stops trees whose many records name one large object: reading these would take hours.
            expect(object.size() <= left, "an object that a tree names twice");
            left -= object.size();
            if (form.by_name == Record::attribute_by_name)
                expect((record.number(1) & ~uint64_t(5)) == 0, "a shared attribute");
            visit(Fields(object));
        };
    };
    each_record(blocks, store.by_name, form.by_name, dense_node_bytes, form.name_bytes, read(form.before_name_id));
    if (store.by_order != no_address)
        each_record(blocks, store.by_order, form.by_order, dense_node_bytes, form.order_bytes,
                    read(form.before_order_id));
}

}  // namespace

void each_record(Blocks& blocks, uint64_t address, Record kind, size_t node_bytes, size_t record_bytes,
                 const std::function<void(Fields)>& visit) {
    Tree(blocks, kind, node_bytes, record_bytes, visit).read(address);
}

void each_dense_attribute(Blocks& blocks, const DenseStore& store, const std::function<void(Fields)>& visit) {
    each_dense(blocks, store, attribute_form, visit);
}

void each_dense_link(Blocks& blocks, const DenseStore& store, const std::function<void(Fields)>& visit) {
    each_dense(blocks, store, link_form, visit);
}

}  // namespace convoy::h5
