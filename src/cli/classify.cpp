// convoy classify: predicts the classes of pictures, or of the images of a data set.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/byte_budget.h"
#include "base/durable.h"
#include "cli/choices.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/model_data.h"
#include "cli/predictions.h"
#include "cli/terminal.h"
#include "comm/comm.h"
#include "comm/preflight.h"
#include "data/image_resize.h"
#include "data/picture_list.h"
#include "model/precision.h"
#include "train/classifier.h"
#include "train/forward_pass.h"

namespace convoy {
namespace po = boost::program_options;
namespace {

struct ClassifyOptions {
    std::vector<std::string> images;
    std::string given, data, split, format, to, device;
    int top = 5, batch = 0, threads = 0;
    Precision precision = Precision::f32;
    bool overwrite = false;
};

po::options_description description(ClassifyOptions& o) {
    po::options_description options;
    options.add_options()                                                                      //
        ("model-file", po::value<std::string>(&o.given)->value_name("FILE"), model_file_help)  //
        ("image", po::value<std::vector<std::string>>(&o.images)->value_name("IMAGE"),
         "a picture, a folder, a tar archive, or a list of paths (.txt); also several, as plain arguments")  //
        ("data", po::value<std::string>(&o.data)->value_name("DIR"), "instead of pictures: a data set of HDF5 shards")(
            "split", po::value<std::string>(&o.split)->default_value("test")->value_name("NAME"), "test or train")  //
        ("top", po::value<int64_t>()->default_value(5)->value_name("N"), "print the N most probable classes")       //
        ("format", po::value<std::string>(&o.format)->default_value("text")->value_name("KIND"),
         "text, csv or json")                                                                                        //
        ("to", po::value<std::string>(&o.to)->value_name("FILE"), "also write an HDF5 file with the logits of all")  //
        ("overwrite", po::bool_switch(&o.overwrite), "replace a file that is there")                                 //
        ("batch-per-rank", po::value<int64_t>()->default_value(64)->value_name("N"), "images per rank and step")     //
        ("device", po::value<std::string>(&o.device)->default_value("auto")->value_name("KIND"),
         help_of(device_choices()).c_str())  //
        ("precision", po::value<std::string>()->default_value("f32")->value_name("TYPE"),
         ("of activations: " + help_of(precision_choices())).c_str())  //
        ("threads", po::value<int64_t>()->default_value(0)->value_name("N"),
         "CPU threads per rank; 0: this rank's share of the cores");
    return options;
}

PredictionPrinter::Format printed_as(const std::string& name) {
    using Format = PredictionPrinter::Format;
    return choose("format", name,
                  Choices<Format>{{"text", Format::text}, {"csv", Format::csv}, {"json", Format::json}});
}

ClassifyOptions parse_classify(const std::vector<std::string>& args) {
    ClassifyOptions o;
    const po::variables_map values = parse(description(o), args, po::positional_options_description().add("image", -1));
    required_value(values, "model-file");
    if (o.images.empty() == o.data.empty())
        fail(Exit::usage, o.data.empty() ? "which pictures? convoy classify --model-file FILE IMAGE..., or --data DIR"
                                         : "--data is instead of pictures; leave one of them out");
    printed_as(o.format);
    o.top = int(value_in_range(values, "top", 1, 1 << 20));
    o.batch = int(value_in_range(values, "batch-per-rank", 1, 1 << 16));
    choose("split", o.split, Choices<int>{{"test", 0}, {"train", 0}});
    o.precision = choose("precision", values["precision"].as<std::string>(), precision_choices());
    o.threads = int(value_in_range(values, "threads", 0, 4096));
    if (!o.to.empty() && !o.to.ends_with(".h5"))
        fail(Exit::usage, "--to " + o.to + ": this writes HDF5; name a file NAME.h5, or take --format csv or json");
    if (!o.to.empty()) check_may_write(o.to, o.overwrite);
    return o;
}

/// Throws Exit::bad_input if the model's input cannot be made from pictures.
void check_takes_pictures(const std::string& path, const ModelFile& file) {
    if (file.data != DType::u8)
        fail(Exit::bad_input, path + " was trained on vectors, not on pictures; give --data DIR");
    if (file.model.c != 1 && file.model.c != 3)
        fail(Exit::bad_input, path + " was trained on images of " + std::to_string(file.model.c) +
                                  " channels; pictures have 3, or 1 if they are grey; give --data DIR");
}

/// Converts pictures to the model's input. Resizes them as an evaluation does. If evaluations
/// resize nothing, resizes as 'convoy convert imagefolder --size' does. Then cuts out the centre.
class PictureReader {
public:
    explicit PictureReader(const ModelFile& file)
        : height_(file.model.h),
          width_(file.model.w),
          channels_(file.model.c),
          short_side_(file.preprocessing.short_side) {}

    size_t image_bytes() const { return size_t(height_) * size_t(width_) * size_t(channels_); }
    /// Writes an image [height, width, channels]. Throws BadImage.
    void read(const Picture& picture, uint8_t* to) {
        ByteBudget::Part decoded_bytes(decoded_), resized_bytes(resized_);
        RgbImage image, resized;
        image.before_pixels = [&](size_t bytes) { decoded_bytes.take(bytes); };
        resized.before_pixels = [&](size_t bytes) { resized_bytes.take(bytes); };
        const std::vector<uint8_t> file = read_picture(picture);
        decode_image(file, image);
        const Resize how = short_side_ > 0 ? Resize{.kind = Resize::Kind::short_side, .short_side = short_side_}
                                           : Resize{.kind = Resize::Kind::exact, .height = height_, .width = width_};
        if (resize(image, how, resized)) std::swap(image, resized);
        // the same centre as draw_resampling() in ops/augment.h cuts out
        const int top = int(std::rint((image.height - height_) / 2.0)),
                  left = int(std::rint((image.width - width_) / 2.0));
        for (int y = 0; y < height_; ++y)
            for (int x = 0; x < width_; ++x, to += channels_)
                put(&image.pixels[(size_t(top + y) * size_t(image.width) + size_t(left + x)) * 3], to);
    }

private:
    /// Writes a pixel. For a grey model it is the luma (ITU-R 601), as Pillow computes it.
    void put(const uint8_t* rgb, uint8_t* to) const {
        if (channels_ == 3)
            std::copy_n(rgb, 3, to);
        else
            *to = uint8_t((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
    }

    // Limit for the pictures of all threads, because a few kilobytes may decode to 300 MB.
    static constexpr size_t most_bytes = size_t(1) << 30;
    const int height_, width_, channels_, short_side_;
    ByteBudget decoded_{most_bytes}, resized_{most_bytes};
};

/// Reads pictures in parallel into `pixels` [pictures, height, width, channels]. Returns for each
/// picture why it could not be read; empty if it was read.
std::vector<std::string> read_all(std::span<const Picture> pictures, PictureReader& reader, int threads,
                                  std::vector<uint8_t>& pixels) {
    std::vector<std::string> faults(pictures.size());
    pixels.assign(pictures.size() * reader.image_bytes(), 0);
    std::atomic<size_t> next = 0;
    const auto work = [&] {
        for (size_t i = next++; i < pictures.size(); i = next++) try {
                reader.read(pictures[i], &pixels[i * reader.image_bytes()]);
            } catch (const BadImage& error) {
                faults[i] = error.what();
            } catch (const std::bad_alloc&) {
                faults[i] = "needs more memory than there is";
            }
    };
    std::vector<std::jthread> others;
    for (int t = 1; t < std::min(threads, int(pictures.size())); ++t) others.emplace_back(work);
    work();
    return faults;
}

/// Prints predictions on rank 0, and keeps them for --to.
class Results {
public:
    Results(Comm& comm, const ClassifyOptions& o, const std::optional<HeldPlace>& to, const std::string& model,
            const ModelFile& file)
        : root_(comm.root()),
          o_(o),
          to_(to),
          model_(model),
          class_names_(file.class_names),
          printer_(printed_as(o.format), file.class_names, o.top, !o.data.empty()) {
        if (root_) printer_.begin(model_);
    }
    void add(Prediction p) {
        // Finite weights may be so large that sums overflow.
        if (!std::ranges::all_of(p.logits, [](float logit) { return std::isfinite(logit); })) {
            p.fault = "the model's output is not finite";
            p.logits.clear();
        }
        faults_ += !p.fault.empty();
        ++images_;
        printer_.add(p);
        if (!o_.to.empty()) kept_.push_back(std::move(p));
    }
    /// Throws Exit::bad_input if no picture could be classified.
    void finish(Terminal& terminal) {
        if (!root_) return;
        printer_.end();
        std::fflush(stdout);
        if (to_)
            write_predictions(*to_, kept_, class_names_, model_, o_.overwrite ? IfThere::replace : IfThere::refuse);
        if (faults_ == images_)
            fail(Exit::bad_input, "none of the pictures could be classified; the reason is beside each");
        if (faults_ > 0)
            terminal.warning(grouped(size_t(faults_)) + " of " + grouped(size_t(images_)) +
                             " pictures could not be classified; the reason is beside each");
    }

private:
    const bool root_;
    const ClassifyOptions& o_;
    const std::optional<HeldPlace> to_;
    const std::string model_;
    const std::vector<std::string> class_names_;
    PredictionPrinter printer_;
    std::vector<Prediction> kept_;  // for --to
    int64_t images_ = 0, faults_ = 0;
};

/// Makes JSON replace bytes that are not UTF-8.
constexpr auto replace_bad_text = nlohmann::json::error_handler_t::replace;

/// Adds the predictions of one batch of all ranks, in the order of the pictures.
void add_batch(Comm& comm, std::span<const Picture> all, size_t per_rank, const std::vector<float>& logits,
               const std::vector<std::string>& faults, size_t classes, Results& results) {
    const std::vector<std::string> texts =
        comm.gather_all(nlohmann::json(faults).dump(-1, ' ', true, replace_bad_text));
    std::vector<float> padded = logits;
    padded.resize(per_rank * classes);
    const std::vector<float> rows = comm.gather(padded);
    if (!comm.root()) return;
    for (size_t rank = 0; rank < texts.size(); ++rank) {
        const auto faults_there = nlohmann::json::parse(texts[rank]).get<std::vector<std::string>>();
        for (size_t i = 0; rank * per_rank + i < all.size() && i < per_rank; ++i) {
            Prediction p{.image = all[rank * per_rank + i].name, .fault = faults_there[i]};
            const auto row = rows.begin() + std::ptrdiff_t((rank * per_rank + i) * classes);
            if (p.fault.empty()) p.logits.assign(row, row + std::ptrdiff_t(classes));
            results.add(std::move(p));
        }
    }
}

void classify_pictures(Comm& comm, Backend& backend, const ClassifyOptions& o, const ModelFile& file,
                       const Graph& graph, const State& state, Results& results) {
    std::string text;
    comm.together([&] {
        if (comm.root()) text = text_of(list_pictures(o.images));
    });
    const std::vector<Picture> pictures = pictures_of(comm.broadcast(text));
    const size_t ranks = size_t(comm.size());
    const auto per_rank = size_t(std::min<int64_t>(o.batch, int64_t((pictures.size() + ranks - 1) / ranks)));
    Classifier classifier(backend, graph, state, file.preprocessing, int(per_rank));
    PictureReader reader(file);
    const int threads = o.threads > 0 ? o.threads : comm.fair_threads();
    const Phase phase(comm.activity(), "classification", "picture", 0, int64_t(pictures.size()));
    std::vector<uint8_t> pixels;
    for (size_t first = 0; first < pictures.size(); first += per_rank * ranks) {
        comm.activity().advance(int64_t(first));
        const auto of = [&](size_t from, size_t most) {
            const size_t begin = std::min(from, pictures.size());
            return std::span(pictures).subspan(begin, std::min(most, pictures.size() - begin));
        };
        const auto mine = of(first + size_t(comm.rank()) * per_rank, per_rank);
        const std::vector<std::string> faults = read_all(mine, reader, threads, pixels);
        add_batch(comm, of(first, per_rank * ranks), per_rank, classifier.run(pixels), faults, size_t(graph.classes),
                  results);
    }
}

void classify_data(Comm& comm, Backend& backend, const ClassifyOptions& o, const ModelFile& file,
                   const std::string& path, const Graph& graph, const State& state, Results& results) {
    std::unique_ptr<SplitReader> reader;
    std::vector<int32_t> labels;
    comm.together([&] {
        reader = std::make_unique<SplitReader>(o.data, o.split);
        check_data(path, file, o.data, reader->info());
    });
    check_same_split(comm, *reader);
    const DataSet data(comm, backend, *reader, 0,
                       place(comm, backend, {.placement = Placement::replicate}, {reader->info().image_bytes()}));
    labels.resize(size_t(data.info().images));
    backend.download(labels.data(), data.labels().data, labels.size() * sizeof(int32_t));
    ForwardPass pass(comm, backend, graph, state, data, file.preprocessing, int64_t(o.batch) * comm.size());
    const Phase phase(comm.activity(), "classification", "batch", 0, pass.batches());
    size_t image = 0;
    for (int64_t batch = 0; batch < pass.batches(); ++batch) {
        comm.activity().advance(batch);
        const ForwardPass::Result result = pass.run(batch);
        const auto classes = size_t(graph.classes);
        for (size_t i = 0; comm.root() && i < size_t(result.samples); ++i, ++image) {
            const auto row = result.outputs.begin() + std::ptrdiff_t(i * classes);
            results.add({.image = std::to_string(image),
                         .logits = {row, row + std::ptrdiff_t(classes)},
                         .label = labels[image]});
        }
    }
}

}  // namespace

OptionGroups options_of_classify() {
    ClassifyOptions unused;
    return one_group(description(unused));
}

int classify(Comm& comm, const std::vector<std::string>& args) {
    ClassifyOptions o;
    comm.together([&] {
        o = parse_classify(args);
        check_world(comm);
    });
    std::optional<HeldPlace> to;  // held, because another user may put another folder at its path meanwhile
    comm.together([&] {
        if (comm.root() && !o.to.empty()) check_place(to.emplace(o.to));
    });
    Terminal terminal(stderr, comm.root());  // stdout is for the result
    const Heartbeat heartbeat(comm.activity(), terminal);
    BackendOptions how;
    how.threads = o.threads;
    how.precision = o.precision;
    const std::unique_ptr<Backend> backend = make_backend(o.device, how, comm);
    std::optional<OpenModel> model;
    Graph graph;
    std::string path;
    comm.together([&] {
        path = model_in(o.given);
        const ModelFile& file = model.emplace(path).file();
        if (o.data.empty()) check_takes_pictures(path, file);
        graph = with_precision(fuse(build_model(file.model)), o.precision, backend->facts().channel_multiple);
        model->check_tensors(graph);
    });
    check_same_model(comm, *model);
    const ModelFile& file = model->file();
    const State state(graph, *backend, nullptr);
    comm.together([&] { load_finite_model(*model, state, *backend); });
    Results results(comm, o, to, path, file);
    if (o.data.empty())
        classify_pictures(comm, *backend, o, file, graph, state, results);
    else
        classify_data(comm, *backend, o, file, path, graph, state, results);
    comm.together([&] { results.finish(terminal); });
    return 0;
}

}  // namespace convoy
