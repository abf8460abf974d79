#include "report/measured_all_reduces.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json_shape.h"

namespace convoy {
namespace {

constexpr const char* advice = "convoy comm-test --bytes 1M..1G --json FILE writes such a table";

/// Returns the entry `name` of the table; throws Exit::bad_input unless it is a number above zero.
double positive(const nlohmann::json& of, const char* name, const std::string& path) {
    const auto found = of.find(name);
    const double value = found != of.end() && found->is_number() ? found->get<double>() : 0;
    if (!(value > 0) || !std::isfinite(value))
        fail(Exit::bad_input, path + ": '" + name + "' is not a number above 0; " + advice);
    return value;
}

int count_of(const nlohmann::json& of, const char* name, const std::string& path) {
    const double value = positive(of, name, path);
    if (value > 1 << 20 || value != std::floor(value))
        fail(Exit::bad_input,
             formatted("%s: '%s' is %g, which is no number of ranks or hosts; %s", path.c_str(), name, value, advice));
    return int(value);
}

nlohmann::json table_of(const std::string& path) {
    const std::string text = text_of_input(path, 16 << 20, advice);
    if (!has_modest_shape(text)) fail(Exit::bad_input, path + ": is nested deeply, as no table is; " + advice);
    nlohmann::json all = nlohmann::json::parse(text, nullptr, false);
    const auto table = all.is_object() ? all.find("all_reduce") : all.end();
    if (!all.is_object() || table == all.end() || !table->is_object())
        fail(Exit::bad_input, path + ": is no table of all-reduces; " + advice);
    const auto sizes = table->find("sizes");
    if (sizes == table->end() || !sizes->is_array() || sizes->empty())
        fail(Exit::bad_input, path + ": has no sizes; " + advice);
    return std::move(*table);
}

void check_rising(const MeasuredAllReduce& before, const MeasuredAllReduce& s, const std::string& path) {
    if (s.bytes <= before.bytes)
        fail(Exit::bad_input, formatted("%s: is not monotonic: %.0f bytes follow %.0f; sort the sizes", path.c_str(),
                                        s.bytes, before.bytes));
    if (s.seconds < before.seconds)
        fail(Exit::bad_input,
             formatted("%s: is not monotonic: %.0f bytes took %.2f us, but %.0f bytes %.2f us; measure again with "
                       "more --iterations, or leave the smaller sizes out",
                       path.c_str(), before.bytes, 1e6 * before.seconds, s.bytes, 1e6 * s.seconds));
}

}  // namespace

std::vector<MeasuredAllReduce> read_measured_all_reduces(const std::string& path) {
    const nlohmann::json table = table_of(path);
    const int ranks = count_of(table, "ranks", path), hosts = count_of(table, "hosts", path),
              per_host = count_of(table, "ranks_per_host", path);
    if (ranks < 2)
        fail(Exit::bad_input, path + ": was measured on one rank, which sends nothing; measure on 2 or more");
    if (int64_t(hosts) * per_host != ranks)
        fail(Exit::bad_input, formatted("%s: %d hosts with %d ranks each are not %d ranks; %s", path.c_str(), hosts,
                                        per_host, ranks, advice));
    std::vector<MeasuredAllReduce> all_reduces;
    for (const nlohmann::json& size : table.at("sizes")) {
        const MeasuredAllReduce s{.nodes = hosts,
                                  .ranks_per_node = per_host,
                                  .bytes = positive(size, "bytes", path),
                                  .seconds = positive(size, "seconds", path)};
        constexpr double most_bytes = uint64_t(1) << 50, least_seconds = 1e-9, most_seconds = 1e6;
        if (s.bytes < 1 || s.bytes > most_bytes || s.seconds < least_seconds || s.seconds > most_seconds)
            fail(Exit::bad_input,
                 formatted("%s: %.3g bytes in %.3g s are impossible; %s", path.c_str(), s.bytes, s.seconds, advice));
        if (!all_reduces.empty()) check_rising(all_reduces.back(), s, path);
        all_reduces.push_back(s);
    }
    return all_reduces;
}

}  // namespace convoy
