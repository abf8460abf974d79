// A metrics.h5 from elsewhere cannot lead to another file: a file that it names is neither read nor
// copied.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "data/hdf5.h"
#include "run/metrics_file.h"
#include "run/metrics_tables.h"
#include "tests/support/cluster.h"
#include "tests/unit/metrics_folder.h"

namespace convoy::test {
namespace {

class MetricsUntrusted : public MetricsFolder {
protected:
    void SetUp() override {
        MetricsFolder::SetUp();
        secret_ = dir + "/secret";
        Metrics metrics(dir);
        fill(metrics);
        metrics.publish();
        write_file(secret_, std::string(5000, 'S'));
    }
    /// Returns the problem with the refusal of the file after an edit, which is then undone.
    template <class Edit> std::string refusal(const std::vector<std::string>& words, Edit edit) const {
        const std::string whole = read_file(h5());
        {
            const h5::Handle file(H5Fopen(h5().c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
            edit(hid_t(file));
        }
        const std::string problem = problem_of_error(Exit::bad_input, words, [&] {
            const MetricsFile read = read_metrics(h5());
            for (const EventRow& event : read.rows<EventRow>()) EXPECT_EQ(event.message.find('S'), std::string::npos);
        });
        write_file(h5(), whole);
        EXPECT_EQ(read_metrics(h5()).rows<EvalRow>().empty(), false) << "as it was";
        return problem;
    }
    /// Replaces a column by one with `rows` rows and another layout.
    static void replace(hid_t file, const char* name, hid_t type, hsize_t rows, hid_t layout) {
        H5Ldelete(file, name, H5P_DEFAULT);
        const h5::Handle space(H5Screate_simple(1, &rows, nullptr));
        ASSERT_TRUE(h5::Handle(H5Dcreate2(file, name, type, space, H5P_DEFAULT, layout, H5P_DEFAULT)).valid());
    }

    std::string secret_;
};

TEST_F(MetricsUntrusted, ColumnsInOtherFilesAreRefused) {
    const hsize_t events = read_metrics(h5()).rows<EventRow>().size();
    const h5::Handle text(H5Tcopy(H5T_C_S1)), layout(H5Pcreate(H5P_DATASET_CREATE));
    H5Tset_size(text, 100);
    H5Pset_external(layout, secret_.c_str(), 0, H5F_UNLIMITED);
    EXPECT_EQ("", refusal({h5(), "events/message", "external storage"},
                          [&](hid_t file) { replace(file, "events/message", text, events, layout); }));
    const h5::Handle space(H5Screate_simple(1, &events, nullptr)), mapped(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_virtual(mapped, space, secret_.c_str(), "/x", space);
    EXPECT_EQ("", refusal({h5(), "events/message", "plain chunks"},
                          [&](hid_t file) { replace(file, "events/message", text, events, mapped); }));
}

// The other file's column has the same type and rows, so that only the link is wrong.
TEST_F(MetricsUntrusted, ColumnsThatAreLinksToOtherFilesAreNotRead) {
    const std::string other = dir + "/other.h5";
    std::filesystem::copy_file(h5(), other);
    const auto linked = [&](const char* column) {
        return [&other, column](hid_t file) {
            H5Ldelete(file, column, H5P_DEFAULT);
            ASSERT_GE(H5Lcreate_external(other.c_str(), column, file, column, H5P_DEFAULT, H5P_DEFAULT), 0);
        };
    };
    EXPECT_EQ("", refusal({h5(), "events/time"}, linked("events/time")));  // it gives the number of rows
    const auto messages = [&] {
        const MetricsFile read = read_metrics(h5());
        std::string all;
        for (const EventRow& event : read.rows<EventRow>()) all += event.message;
        return all;
    };
    EXPECT_NE(messages(), "");
    linked("events/message")(h5::Handle(H5Fopen(h5().c_str(), H5F_ACC_RDWR, H5P_DEFAULT)));
    EXPECT_EQ(messages(), "") << "as if the column were missing";
}

// In memory each column takes room.
TEST_F(MetricsUntrusted, ColumnsThatAreNamesOfOneDataSetAreRefused) {
    EXPECT_EQ("", refusal({h5(), "eval/", "does not fit its table"}, [&](hid_t file) {
                  constexpr hsize_t rows = 100'000, chunk = 4096;
                  const h5::Handle layout(H5Pcreate(H5P_DATASET_CREATE));
                  H5Pset_chunk(layout, 1, &chunk);
                  H5Pset_fletcher32(layout);
                  const std::vector<int64_t> zeros(rows);
                  for (const auto& [name, type] : {std::pair{"i", H5T_STD_I64LE}, {"f", H5T_IEEE_F64LE}}) {
                      const h5::Handle space(H5Screate_simple(1, &rows, nullptr));
                      const h5::Handle set(H5Dcreate2(file, name, type, space, H5P_DEFAULT, layout, H5P_DEFAULT));
                      ASSERT_GE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data()), 0);
                  }
                  for (const auto& column : Table<EvalRow>::columns) {
                      const std::string name = std::string("eval/") + column.name;
                      const bool is_integer = std::holds_alternative<int64_t EvalRow::*>(column.field);
                      H5Ldelete(file, name.c_str(), H5P_DEFAULT);
                      H5Lcreate_hard(file, is_integer ? "i" : "f", file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT);
                  }
              }));
}

TEST_F(MetricsUntrusted, ARunInAnotherFileIsRefused) {
    const std::string pipe = dir + "/pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    for (const std::string& target : {pipe, secret_, h5()})
        EXPECT_EQ("", refusal({h5(), "no group /run"}, [&](hid_t file) {
                      H5Ldelete(file, "run", H5P_DEFAULT);
                      H5Lcreate_external(target.c_str(), "/run", file, "run", H5P_DEFAULT, H5P_DEFAULT);
                  }));
    EXPECT_EQ("", refusal({h5(), "no group /run"}, [&](hid_t file) { H5Ldelete(file, "run", H5P_DEFAULT); }));
    EXPECT_EQ("", refusal({h5(), "/run"}, [&](hid_t file) {
                  H5Ldelete(file, "run", H5P_DEFAULT);
                  H5Lcreate_hard(file, "train/loss", file, "run", H5P_DEFAULT, H5P_DEFAULT);
              }));
}

TEST_F(MetricsUntrusted, ColumnsThatTheFileDoesNotHoldAreRefused) {
    const hsize_t events = read_metrics(h5()).rows<EventRow>().size(), chunk = 1;
    const h5::Handle layout(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_chunk(layout, 1, &chunk);
    H5Pset_fletcher32(layout);
    EXPECT_EQ("", refusal({h5(), "events/step", "does not fit its table"},
                          [&](hid_t file) { replace(file, "events/step", H5T_STD_I64LE, events, layout); }));
    EXPECT_EQ("", refusal({h5(), "events/step", "does not fit its table"},
                          [&](hid_t file) { replace(file, "events/step", H5T_STD_I32LE, events, layout); }));
    EXPECT_EQ("", refusal({h5(), "events/time", "damaged"},
                          [&](hid_t file) { replace(file, "events/time", H5T_IEEE_F64LE, 1 << 28, layout); }));
}

// Notebooks add notes and change them; HDF5 leaves the older text in the file.
TEST_F(MetricsUntrusted, TextsThatOthersAddedAreRead) {
    for (const char* note : {"first", "a second, longer note"}) {
        const h5::Handle file(H5Fopen(h5().c_str(), H5F_ACC_RDWR, H5P_DEFAULT)),
            run(H5Gopen2(file, "run", H5P_DEFAULT));
        h5::set_attribute(run, "note", note);
        h5::set_attribute(run, std::string(300, 'n'), note);
    }
    const MetricsFile read = read_metrics(h5());
    EXPECT_EQ(read.run.at("note"), "a second, longer note");
    EXPECT_FALSE(read.run.contains(std::string(255, 'n')));
}

// HDF5 would sort all of them for each, and take most of a minute.
TEST_F(MetricsUntrusted, ThousandsOfAttributesAreReadInOneGo) {
    constexpr int attributes = 4000;
    {
        const h5::Handle file(H5Fopen(h5().c_str(), H5F_ACC_RDWR, H5P_DEFAULT)),
            run(H5Gopen2(file, "run", H5P_DEFAULT));
        for (int i = 0; i < attributes; ++i) h5::set_checked_attribute(run, "note " + std::to_string(i), "a");
    }
    const Finished f = run(with_limit(sibling("convoy") + " report " + dir, 10));
    EXPECT_EQ("", failure(f));
    const MetricsFile read = read_metrics(h5());
    for (int i = 0; i < attributes; ++i) EXPECT_EQ(read.run.at("note " + std::to_string(i)), "a");
}

}  // namespace
}  // namespace convoy::test
