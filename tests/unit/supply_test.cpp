// Batches assembled on the host: every rank gets the samples of the order, with their pixels and
// labels, whichever node holds them. The order does not depend on the number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "backend/cpu/cpu_backend.h"
#include "data/shard.h"
#include "supply/partition.h"
#include "supply/placement.h"
#include "supply/stream.h"
#include "supply/supply.h"
#include "tests/support/cluster.h"
#include "tests/support/file_calls.h"
#include "tests/support/images.h"
#include "tests/support/test_comm.h"

namespace convoy::test {
namespace {

constexpr int64_t images = 203, global_batch = 20, steps = 11, epochs = 3;
constexpr uint64_t seed = 5;

/// The batches that the ranks of a training take from a split, step by step.
class Batches {
public:
    /// `share`: the ranks of this host share memory; otherwise each rank is a separate node.
    Batches(const std::string& dir, Placement placement, bool share, bool cropped = false, bool mixes = false,
            int64_t audit_every = 0)
        : reader_(dir, "train"),
          places_(reader_.info().ragged ? reader_.places() : std::vector<ImagePlace>()),
          shapes_(reader_.info(), places_),
          pixels_(reader_.info().image_bytes()),
          labels_(size_t(reader_.info().images)),
          cropped_(cropped),
          mixes_(mixes) {
        reader_.read(0, reader_.info().images, pixels_.data(), labels_.data());
        Comm& comm = test_comm();
        if (placement == Placement::partition) {
            store_ = std::make_unique<Partition>(comm, shapes_, share, [&](int64_t first, int64_t rows, uint8_t* to) {
                std::vector<int32_t> labels(static_cast<size_t>(rows));
                reader_.read(first, rows, to, labels.data());
            });
        } else {
            const StreamBlocks blocks(std::make_shared<const SplitPieces>(reader_), shapes_, pixels_.size() / 6);
            order_ = formula(blocks.order);
            store_ = std::make_unique<Stream>(comm, shapes_, share, blocks, 2);
        }
        supply_ = std::make_unique<Supply>(
            comm, backend_, store_.get(), shapes_, labels_.data(),
            BatchOrder{steps_of_epoch(images, global_batch, false), global_batch, {true, seed}, mixes, 0, audit_every},
            [this](int64_t epoch, int32_t sample, int height, int) { return lines(epoch, sample, height); });
        supply_->build();
    }

    /// Returns the samples of the global batches of steps [first, end), rank by rank, checked
    /// against the split; on rank 0.
    std::vector<int32_t> samples(int64_t first, int64_t end) {
        std::vector<int32_t> all;
        supply_->begin(first, end);
        for (int64_t step = first; step < end; ++step) {
            supply_->next();
            const int64_t batch = step % steps == steps - 1 ? images % global_batch : global_batch;
            const std::vector<float> mine =
                checked(step / steps, share_of(batch, test_comm().size(), test_comm().rank()));
            std::vector<float> row(size_t(global_batch) + 1, -1);
            std::copy(mine.begin(), mine.end(), row.begin());
            for (const float sample : test_comm().gather(row))
                if (sample >= 0) all.push_back(int32_t(sample));
        }
        return all;
    }

    /// Returns the samples in this rank's batch of `step`, checked against the split: those of its
    /// share, then those of the shares of `before` ranks before it.
    std::vector<std::vector<int32_t>> shares(int64_t step, int before) {
        supply_->begin(step, epochs * steps);
        supply_->next();
        const int64_t batch = step % steps == steps - 1 ? images % global_batch : global_batch;
        const int ranks = test_comm().size();
        std::vector<std::vector<int32_t>> all;
        size_t at = 0;
        for (int distance = 0; distance <= before; ++distance) {
            const Share share = share_of(batch, ranks, (test_comm().rank() - distance + ranks) % ranks);
            const std::vector<float> samples = checked(step / steps, share, at);
            all.emplace_back(samples.begin(), samples.end());
            at += samples.size();
        }
        return all;
    }

    /// Returns the samples of all epochs of a stream, by the rule for its order.
    const std::vector<int32_t>& expected() const { return order_; }

    /// Returns the bytes read from files before the batch of `step`, the first one wanted, is
    /// there.
    size_t bytes_until(int64_t step) {
        const size_t before = bytes_read();
        supply_->begin(step, epochs * steps);
        supply_->next();
        return bytes_read() - before;
    }
    size_t bytes() const { return pixels_.size(); }

    /// Simulates a training that ends with batches in flight.
    void leave(int64_t step) {
        supply_->begin(step, epochs * steps);
        supply_->next();
        supply_.reset();
    }

private:
    /// Returns the order: runs are permuted and cut into blocks, and the rows of a block's runs are
    /// permuted.
    static std::vector<int32_t> formula(const StreamOrder& order) {
        std::vector<int32_t> all;
        for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
            const StreamOrder::Epoch e = order.epoch({true, seed}, epoch);
            for (int64_t block = 0; block < order.blocks(); ++block) {
                std::vector<int32_t> rows;
                for (int32_t i = e.first_run[block]; i < e.first_run[size_t(block) + 1]; ++i) {
                    const RowRun& run = order.runs()[e.runs[i]];
                    for (int64_t row = run.first; row < run.first + run.count; ++row) rows.push_back(int32_t(row));
                }
                for (const int32_t i : StreamOrder::order_within({true, seed}, epoch, block, int64_t(rows.size())))
                    all.push_back(rows[i]);
            }
        }
        return all;
    }

    Lines lines(int64_t epoch, int32_t sample, int height) const {
        if (!cropped_) return {0, height};
        const int first = int((sample * 7 + epoch) % height);
        return {first, std::max(1, (height - first) / 2)};
    }

    /// Returns the samples of a share, which begins at row `at` of this rank's batch, after
    /// checking their pixels and labels.
    std::vector<float> checked(int64_t epoch, Share share, size_t at = 0) const {
        const StagedBatch& batch = *supply_->batch();
        std::vector<float> samples;
        const int64_t count = mixes_ && share.count > 0 ? share.count + 1 : share.count;
        for (size_t i = at; i < at + size_t(count); ++i) {
            const int32_t sample = batch.samples[i];
            samples.push_back(float(sample));
            EXPECT_EQ(batch.labels[i], labels_[sample]);
            const ImagePlace is = shapes_[sample], staged = batch.places[i];
            EXPECT_EQ(staged.height, is.height);
            EXPECT_EQ(staged.width, is.width);
            const Lines shown = lines(epoch, sample, is.height);
            const size_t line = shapes_.line_bytes(sample), from = size_t(shown.first) * line;
            const auto* pixels = static_cast<const uint8_t*>(batch.images) + staged.offset + from;
            EXPECT_TRUE(std::equal(pixels, pixels + size_t(shown.count) * line, &pixels_[size_t(is.offset) + from]))
                << "sample " << sample;
        }
        return samples;
    }

    SplitReader reader_;
    std::vector<ImagePlace> places_;
    RowShapes shapes_;
    std::vector<uint8_t> pixels_;
    std::vector<int32_t> labels_;
    const bool cropped_, mixes_;
    cpu::CpuBackend backend_{{.threads = 1}, test_comm()};
    std::vector<int32_t> order_;
    std::unique_ptr<RowStore> store_;
    std::unique_ptr<Supply> supply_;
};

std::vector<int32_t> sorted(std::vector<int32_t> values) {
    std::sort(values.begin(), values.end());
    return values;
}

class SupplyTest : public testing::Test {
protected:
    void SetUp() override {
        // all ranks of a test must read the same files
        if (const char* dir = std::getenv("CONVOY_SUPPLY_DATA"); dir) {
            dir_ = dir;
            return;
        }
        dir_ = own_.path("data");
        make_data(dir_ + "/fixed", images, 10, "64x48x3", 20);
        make_ragged(dir_ + "/ragged", ImageLayout::raw, images);
        make_ragged(dir_ + "/jpeg", ImageLayout::jpeg, images);
        ::setenv("CONVOY_SUPPLY_DATA", dir_.c_str(), 1);
    }
    void TearDown() override {
        if (test_comm().size() == 1) ::unsetenv("CONVOY_SUPPLY_DATA");
    }
    /// Runs `body` here; on one rank it then runs it on 2, 3 and 4.
    void on_any_ranks(const std::function<void()>& body) {
        body();
        if (test_comm().size() > 1) return;
        for (const int ranks : {2, 3, 4}) EXPECT_EQ("", problem_on_ranks(ranks)) << ranks << " ranks";
    }
    /// Expects rank 0's list to be the same on any number of ranks: the first run keeps it in a
    /// file.
    void expect_same_everywhere(const std::string& name, const std::vector<int32_t>& list) const {
        if (!test_comm().root()) return;
        const std::string path = dir_ + "/" + name + ".list";
        std::ostringstream text;
        for (const int32_t sample : list) text << sample << " ";
        if (test_comm().size() == 1) write_file(path, text.str());
        EXPECT_EQ(read_file(path), text.str()) << name;
    }

    TempDir own_;
    std::string dir_;
};

// This holds wherever a training resumes. A block is a sixth of the images, plus at most one chunk.
TEST_F(SupplyTest, AStreamReadsTwoBlocksBeforeItsFirstBatch) {
    constexpr size_t chunk = 20 * 64 * 48 * 3;
    for (const int64_t step : {int64_t(0), steps / 2, steps + 3, epochs * steps - 1}) {
        Batches batches(dir_ + "/fixed", Placement::stream, false);
        const size_t read = batches.bytes_until(step);
        EXPECT_GE(read, size_t(64 * 48 * 3)) << step;
        EXPECT_LE(read, 2 * (batches.bytes() / 6 + chunk)) << step;
    }
}

// Covers data sets with images of one size, with images of several sizes, and with JPEG files.
TEST_F(SupplyTest, APartitionHasTheOrderOfAReplica) {
    on_any_ranks([&] {
        for (const char* set : {"fixed", "ragged", "jpeg"})
            for (const bool share : {false, true}) {
                const std::vector<int32_t> samples =
                    Batches(dir_ + "/" + set, Placement::partition, share).samples(0, epochs * steps);
                std::vector<int32_t> expected;
                for (uint32_t epoch = 0; epoch < epochs; ++epoch)
                    for (const int32_t sample : permutation(images, seed, epoch)) expected.push_back(sample);
                if (test_comm().root()) {
                    EXPECT_EQ(samples, expected) << set << share;
                }
            }
    });
}

TEST_F(SupplyTest, AStreamHasTheSameOrderOnAnyRanks) {
    on_any_ranks([&] {
        for (const char* set : {"fixed", "ragged", "jpeg"})
            for (const bool share : {false, true}) {
                Batches batches(dir_ + "/" + set, Placement::stream, share);
                const std::vector<int32_t> samples = batches.samples(0, epochs * steps);
                expect_same_everywhere(set, samples);
                if (!test_comm().root()) continue;
                EXPECT_EQ(samples, batches.expected());
                ASSERT_EQ(samples.size(), size_t(epochs * images));
                std::vector<int32_t> before;
                for (int64_t epoch = 0; epoch < epochs; ++epoch) {
                    const auto begin = samples.begin() + epoch * images;
                    const std::vector<int32_t> order(begin, begin + images), all = sorted(order);
                    EXPECT_NE(order, before) << "an order of its own";
                    EXPECT_NE(order, all);
                    for (int32_t i = 0; i < images; ++i) ASSERT_EQ(all[i], i) << "every sample once";
                    before = order;
                }
            }
    });
}

// Only those lines of an image are sent that a step reads.
TEST_F(SupplyTest, LinesThatAreNotReadAreLeftOut) {
    on_any_ranks([&] {
        for (const Placement placement : {Placement::partition, Placement::stream})
            Batches(dir_ + "/ragged", placement, false, true).samples(0, steps + 2);
    });
}

// The partner of the last rank's last sample is the first of all. Crops apply to the partner, too.
TEST_F(SupplyTest, AShareOfAMixedBatchEndsWithAPartner) {
    on_any_ranks([&] {
        for (const Placement placement : {Placement::partition, Placement::stream}) {
            const std::string set = dir_ + "/ragged";
            const std::vector<int32_t> order = Batches(set, placement, false).samples(0, steps + 2),
                                       mixed = Batches(set, placement, false, true, true).samples(0, steps + 2);
            std::vector<int32_t> expected;
            for (size_t begin = 0, step = 1; begin < order.size(); ++step) {
                const int64_t batch = step == steps ? images % global_batch : global_batch;
                for (int rank = 0; rank < test_comm().size(); ++rank) {
                    const Share share = share_of(batch, test_comm().size(), rank);
                    for (int64_t i = share.first; share.count > 0 && i <= share.first + share.count; ++i)
                        expected.push_back(order[begin + size_t(i % batch)]);
                }
                begin += size_t(batch);
            }
            if (test_comm().root()) {
                EXPECT_EQ(mixed, expected);
            }
        }
    });
}

// The audit of step 5 (counted from 0), and of step 10, whose batch is of three samples.
TEST_F(SupplyTest, AtAnAuditedStepSharesOfTwoRanksBeforeFollow) {
    on_any_ranks([&] {
        const int ranks = test_comm().size(), before = std::min(ranks - 1, 2);
        const std::vector<int32_t> order = permutation(images, seed, 0);
        for (const bool share : {false, true})
            for (const bool mixes : {false, true})
                for (const auto& [step, every] : {std::pair<int64_t, int64_t>{5, 6}, {steps - 1, steps}, {6, 6}}) {
                    Batches batches(dir_ + "/ragged", Placement::partition, share, true, mixes, every);
                    const int audited = (step + 1) % every == 0 ? before : 0;
                    const std::vector<std::vector<int32_t>> found = batches.shares(step, audited);
                    const int64_t first = step * global_batch, batch = std::min(global_batch, images - first);
                    for (int distance = 0; distance <= audited; ++distance) {
                        const Share of = share_of(batch, ranks, (test_comm().rank() - distance + ranks) % ranks);
                        std::vector<int32_t> expected;
                        for (int64_t i = 0; i < of.count + (mixes && of.count > 0 ? 1 : 0); ++i)
                            expected.push_back(order[size_t(first + (of.first + i) % batch)]);
                        EXPECT_EQ(found[size_t(distance)], expected) << step << " " << distance << mixes << share;
                    }
                }
    });
}

// Messages are so large that their memory is returned to the system when it is freed.
TEST_F(SupplyTest, ItEndsWithBatchesOnTheirWay) {
    if (test_comm().size() == 1) make_data(dir_ + "/large", images, 1, "256x256x3", 2);
    on_any_ranks([&] {
        for (const Placement placement : {Placement::partition, Placement::stream})
            for (const int64_t step : {0, 9, 10}) Batches(dir_ + "/large", placement, false).leave(step);
    });
}

TEST_F(SupplyTest, ItBeginsAnywhereAndAgain) {
    on_any_ranks([&] {
        for (const Placement placement : {Placement::partition, Placement::stream}) {
            const std::vector<int32_t> all = Batches(dir_ + "/fixed", placement, false).samples(0, epochs * steps);
            Batches batches(dir_ + "/fixed", placement, false);
            for (const auto& [first, end] :
                 {std::pair{4, 9}, {9, 30}, {30, 33}, {2, 3}, {2, 13}, {13, 14}, {10, 11}, {10, 14}, {0, 33}}) {
                const std::vector<int32_t> part = batches.samples(first, end);
                if (!test_comm().root()) continue;
                const auto position = [&](int64_t step) {
                    return step / steps * images + std::min(step % steps * global_batch, images);
                };
                EXPECT_EQ(part, std::vector<int32_t>(all.begin() + position(first), all.begin() + position(end)))
                    << first << " to " << end;
            }
        }
    });
}

}  // namespace
}  // namespace convoy::test
