#include "cli/info_options.h"

#include "backend/chips.h"
#include "cli/choices.h"
#include "cli/command_line.h"
#include "model/models.h"

namespace convoy {
namespace {

namespace po = boost::program_options;

po::options_description description(InfoOptions& o) {
    po::options_description options;
    options.add_options()  //
        ("path", po::value<std::string>(&o.path)->default_value("")->value_name("PATH"),
         "sum up a run folder, a model file, a checkpoint or a data set; also as a plain argument")  //
        ("plans", po::value<std::string>(&o.plans)->value_name("MODEL"),
         "how a training step of this model runs: cuDNN's plans for a GPU, which need not be here, or the algorithm of "
         "each convolution on this CPU")  //
        ("chip", po::value<std::string>(&o.chip)->default_value("h100")->value_name("NAME"),
         chip_names(chip_of_cpu).c_str())  //
        ("precision", po::value<std::string>(&o.precision)->default_value("")->value_name("TYPE"),
         (help_of(precision_choices()) + "; by default bf16, or f16 or f32 on GPUs that have no better").c_str())   //
        ("batch-per-rank", po::value<int64_t>()->default_value(128)->value_name("N"), "samples per rank and step")  //
        ("image-size", po::value<std::string>(&o.size)->default_value("")->value_name("HxWxC"),
         "of the images; by default what the model takes, else 224x224x3")  //
        ("classes", po::value<int64_t>()->default_value(0)->value_name("N"),
         "of the labels; 0: 10 for a model of small images, else 1000")  //
        ("stem", po::value<std::string>(&o.stem)->default_value("auto")->value_name("KIND"),
         "of the resnets: imagenet, cifar or auto")  //
        ("run", po::value<int64_t>()->implicit_value(0)->value_name("LINE"),
         "check and time two plans of each kind of operation on the GPU that is here; --run=LINE: only from that line "
         "to the last one of its kind, and in this process");
    return options;
}

}  // namespace

OptionGroups options_of_info() {
    InfoOptions unused;
    return one_group(description(unused));
}

InfoOptions parse_info(const std::vector<std::string>& args) {
    InfoOptions o;
    const po::variables_map values = parse(description(o), args, po::positional_options_description().add("path", 1));
    if (!o.path.empty() && !o.plans.empty())
        fail(Exit::usage, "--plans and " + o.path + " are two questions; leave one of them out");
    if (values.contains("run")) {
        if (o.plans.empty()) fail(Exit::usage, "--run: is of the plans of a model; add --plans MODEL");
        if (!values["chip"].defaulted())
            fail(Exit::usage, "--chip " + o.chip + ": --run takes the GPU that is here; leave one of them out");
        o.line = value_in_range(values, "run", 0, 1 << 24);
    }
    o.batch = value_in_range(values, "batch-per-rank", 1, 1 << 24);
    o.classes = value_in_range(values, "classes", 0, 1 << 24);
    return o;
}

Graph graph_of(const InfoOptions& o, Precision precision) {
    ModelOptions model = usual_images(o.plans, {1, 224, 224, 3});
    if (model.h == 224) model.classes = 1000;
    if (!o.size.empty()) {
        const Shape size = parse_image_size("image-size", o.size);
        model.h = size.h;
        model.w = size.w;
        model.c = size.c;
    }
    if (o.classes > 0) model.classes = int(o.classes);
    model.stem = o.stem;
    const int multiple = o.chip == chip_of_cpu ? 1 : tensor_core_multiple;
    return with_precision(fuse(build_model(model)), precision, multiple);
}

}  // namespace convoy
