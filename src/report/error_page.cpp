#include "report/error_page.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cmath>

#include "base/html.h"
#include "data/png_file.h"

namespace convoy {
namespace {

/// Matrices of more classes are shown as a picture instead of a table.
constexpr int most_in_table = 25;

constexpr const char* style =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 1em;color:#222}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse}"
    "td,th{padding:.2em .6em;text-align:right;font-weight:normal}th{color:#555}"
    "td.name,th.name{text-align:left}.figures td{font-size:1.3em;padding-right:1.6em;text-align:left}"
    ".matrix td{border:1px solid #eee;min-width:2.2em}.matrix th.top{writing-mode:vertical-rl;text-align:left}"
    "figure{display:inline-block;width:9.5em;margin:.4em;vertical-align:top;font-size:.85em}"
    "figure img{width:100%;image-rendering:pixelated}figcaption{overflow-wrap:anywhere}.wrong{color:#b00}"
    "p.note{color:#555}";

std::string percent(double share) { return formatted("%.2f %%", 100 * share); }

std::string embedded(const std::vector<uint8_t>& png) {
    std::string text(4 * ((png.size() + 2) / 3) + 1, '\0');
    text.resize(size_t(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), png.data(), int(png.size()))));
    return "data:image/png;base64," + text;
}

std::string figures(const ErrorAnalysis& a) {
    const ShareInterval interval = wilson_interval(a.correct(), a.images());
    const auto row = [](const char* name, const std::string& value) {
        return std::string("<tr><th class=name>") + name + "</th><td>" + value + "</td></tr>\n";
    };
    return "<table class=figures>\n" + row("accuracy", percent(double(a.correct()) / double(a.images()))) +
           row("95 % interval", percent(interval.low) + " to " + percent(interval.high)) +
           row("correct", grouped(size_t(a.correct())) + " of " + grouped(size_t(a.images()))) +
           row("label among the first five", percent(double(a.correct_in_five()) / double(a.images()))) +
           row("loss", formatted("%.4f", a.loss())) + row("calibration error", percent(a.calibration_error())) +
           "</table>\n";
}

std::string matrix_table(const ErrorAnalysis& a, const std::vector<std::string>& names) {
    std::string html = "<table class=matrix id=confusion>\n<tr><th class=name>label \\ predicted</th>";
    for (const std::string& name : names) html += "<th class=top>" + html_escaped(name) + "</th>";
    for (int label = 0; label < a.classes(); ++label) {
        html += "</tr>\n<tr><th class=name>" + html_escaped(names[label]) + "</th>";
        for (int predicted = 0; predicted < a.classes(); ++predicted) {
            const CellColour c = cell_colour(a, label, predicted);
            const bool dark = int(c.red) + c.green + c.blue < 384;
            html += formatted("<td style=\"background:#%02x%02x%02x%s\">%lld</td>", c.red, c.green, c.blue,
                              dark ? ";color:#fff" : "", (long long)a.count(label, predicted));
        }
    }
    return html + "</tr>\n</table>\n";
}

std::string matrix_picture(const ErrorAnalysis& a) {
    return "<img id=confusion alt=\"confusion matrix\" src=\"" + embedded(png_of(confusion_picture(a))) + "\">\n";
}

std::string matrix(const ErrorAnalysis& a, const std::vector<std::string>& names) {
    if (a.classes() > most_classes_of_matrix)
        return "<p class=note>confusion.csv has it; it is too large to be shown.</p>\n";
    return a.classes() <= most_in_table ? matrix_table(a, names) : matrix_picture(a);
}

std::string confusions(const ErrorAnalysis& a, const std::vector<std::string>& names) {
    std::string html = "<table>\n<tr><th class=name>label</th><th class=name>predicted</th><th>images</th></tr>\n";
    for (const Confusion& c : largest_confusions(a, 20))
        html += "<tr><td class=name>" + html_escaped(names[c.label]) + "</td><td class=name>" +
                html_escaped(names[c.predicted]) + "</td><td>" + grouped(size_t(c.images)) + "</td></tr>\n";
    return html + "</table>\n";
}

std::string by_class(const ErrorAnalysis& a, const std::vector<std::string>& names) {
    std::string html =
        "<table id=classes>\n<tr><th class=name>class</th><th>images</th><th>correct</th><th>accuracy</th>"
        "<th>95 % interval</th><th>predicted</th></tr>\n";
    for (int c = 0; c < a.classes(); ++c) {
        const int64_t images = a.images_of(c), correct = a.count(c, c);
        const ShareInterval interval = wilson_interval(correct, images);
        html += "<tr><td class=name>" + html_escaped(names[c]) + "</td><td>" + grouped(size_t(images)) + "</td><td>" +
                grouped(size_t(correct)) + "</td><td>" +
                (images == 0 ? "" : percent(double(correct) / double(images))) + "</td><td>" + percent(interval.low) +
                " to " + percent(interval.high) + "</td><td>" + grouped(size_t(a.predicted_as(c))) + "</td></tr>\n";
    }
    return html + "</table>\n";
}

/// Draws accuracy over confidence as SVG, one bar per bin; the diagonal is perfect calibration.
std::string reliability(const ErrorAnalysis& a) {
    constexpr double side = 300, left = 45, top = 10, width = side / ErrorAnalysis::bin_count;
    std::string svg = formatted("<svg id=reliability width=\"%g\" height=\"%g\" font-size=\"12\">\n", left + side + 15,
                                top + side + 45);
    for (size_t i = 0; i < a.bins().size(); ++i) {
        const ReliabilityBin& bin = a.bins()[i];
        if (bin.images == 0) continue;
        const double accuracy = double(bin.correct) / double(bin.images);
        svg += formatted(
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#6a9fd8\"><title>%lld "
            "images: mean confidence %.4f, accuracy %.4f</title></rect>\n",
            left + double(i) * width, top + side * (1 - accuracy), width - 1, side * accuracy, (long long)bin.images,
            bin.confidence / double(bin.images), accuracy);
    }
    svg += formatted(
        "<path d=\"M%g %gV%gH%g\" fill=\"none\" stroke=\"#555\"/><path d=\"M%g %gL%g %g\" "
        "stroke=\"#b00\" stroke-dasharray=\"4\"/>\n",
        left, top, top + side, left + side, left, top + side, left + side, top);
    for (const double at : {0.0, 0.5, 1.0})
        svg += formatted(
            "<text x=\"%g\" y=\"%g\" text-anchor=\"end\">%g %%</text><text x=\"%g\" y=\"%g\" "
            "text-anchor=\"middle\">%g %%</text>\n",
            left - 5, top + side * (1 - at) + 4, 100 * at, left + side * at, top + side + 16, 100 * at);
    return svg + formatted("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">confidence; bars: accuracy</text>\n</svg>\n",
                           left + side / 2, top + side + 36);
}

std::string gallery(const ErrorAnalysis& a, const std::vector<std::string>& names,
                    const std::vector<std::vector<uint8_t>>& pictures) {
    std::string html = "<div id=mistakes>\n";
    for (size_t i = 0; i < a.mistakes().size(); ++i) {
        const Mistake& m = a.mistakes()[i];
        html += "<figure>";
        if (i < pictures.size()) html += "<img alt=\"\" src=\"" + embedded(pictures[i]) + "\">";
        html += formatted("<figcaption>image %lld: %s<br><span class=wrong>%s %s</span><br>label %s</figcaption>",
                          (long long)m.image, html_escaped(names[m.label]).c_str(),
                          html_escaped(names[m.predicted]).c_str(), percent(m.confidence).c_str(),
                          percent(m.of_the_label).c_str()) +
                "</figure>\n";
    }
    return html + "</div>\n";
}

}  // namespace

CellColour cell_colour(const ErrorAnalysis& a, int label, int predicted) {
    const int64_t images = a.images_of(label);
    // the square root makes rare errors visible
    const double dark = images == 0 ? 0 : std::sqrt(double(a.count(label, predicted)) / double(images));
    const auto fade = [&](int full) { return uint8_t(std::lround(255 - dark * (255 - full))); };
    return label == predicted ? CellColour{fade(30), fade(90), fade(160)} : CellColour{fade(190), fade(20), fade(20)};
}

RgbImage confusion_picture(const ErrorAnalysis& a) {
    const int classes = a.classes(), square = std::max(1, 480 / classes), side = square * classes;
    RgbImage image{.height = side, .width = side};
    image.pixels.resize(size_t(side) * size_t(side) * 3);
    for (int label = 0; label < classes; ++label)
        for (int predicted = 0; predicted < classes; ++predicted) {
            const CellColour c = cell_colour(a, label, predicted);
            for (int y = label * square; y < (label + 1) * square; ++y)
                for (int x = predicted * square; x < (predicted + 1) * square; ++x) {
                    uint8_t* pixel = &image.pixels[(size_t(y) * size_t(side) + size_t(x)) * 3];
                    pixel[0] = c.red, pixel[1] = c.green, pixel[2] = c.blue;
                }
        }
    return image;
}

std::string error_page(const ErrorAnalysis& a, const MeasuredModel& m,
                       const std::vector<std::vector<uint8_t>>& pictures) {
    const std::string title =
        html_escaped(m.model) + " on " + html_escaped(m.data) + " (" + html_escaped(m.split) + ")";
    return "<!DOCTYPE html>\n<html lang=en>\n<meta charset=utf-8>\n<title>" + title + "</title>\n<style>" + style +
           "</style>\n<h1>" + title + "</h1>\n" + figures(a) + "<h2>Confusion matrix</h2>\n" +
           "<p class=note>Rows are labels, columns are predictions. Blue is right, red is wrong.</p>\n" +
           matrix(a, m.class_names) + "<h2>Most frequent confusions</h2>\n" + confusions(a, m.class_names) +
           "<h2>Most confident mistakes</h2>\n" +
           "<p class=note>Each picture: its index and label, the predicted class with its probability, and the "
           "probability of the label.</p>\n" +
           gallery(a, m.class_names, pictures) + "<h2>Reliability</h2>\n" +
           "<p class=note>Images are grouped by the probability of the predicted class. Bars below the dashed line: "
           "the model is too confident.</p>\n" +
           reliability(a) + "<h2>Classes</h2>\n" +
           (a.classes() > most_classes_of_matrix ? "<p class=note>classes.csv has them.</p>\n"
                                                 : by_class(a, m.class_names)) +
           "</html>\n";
}

}  // namespace convoy
