#include "comm/host.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>

#include "base/text.h"

namespace convoy {
namespace {

/// Returns the texts after `key` and `separator` from the lines of a file that start with them.
std::vector<std::string> entries(const std::string& file, const std::string& key, char separator) {
    std::vector<std::string> found;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        const size_t at = line.find(separator);
        if (at == std::string::npos || line.substr(0, line.find_last_not_of(" \t", at - 1) + 1) != key) continue;
        const size_t start = line.find_first_not_of(" \t\"", at + 1);
        const size_t end = line.find_last_not_of(" \t\"");
        found.push_back(start == std::string::npos ? "" : line.substr(start, end - start + 1));
    }
    return found;
}

std::string first_or_unknown(const std::vector<std::string>& texts) { return texts.empty() ? "unknown" : texts[0]; }

/// Returns "2 x AMD EPYC 7742 64-Core Processor, 256 processors".
std::string cpu_of(const std::string& cpuinfo) {
    const std::vector<std::string> packages = entries(cpuinfo, "physical id", ':');
    const size_t count = std::set<std::string>(packages.begin(), packages.end()).size();
    const size_t processors = entries(cpuinfo, "processor", ':').size();
    return (count > 1 ? std::to_string(count) + " x " : "") + first_or_unknown(entries(cpuinfo, "model name", ':')) +
           ", " + std::to_string(processors) + (processors == 1 ? " processor" : " processors");
}

std::string memory_of(const std::string& meminfo) {
    const std::vector<std::string> total = entries(meminfo, "MemTotal", ':');
    if (total.empty()) return "unknown";
    char text[32];
    std::snprintf(text, sizeof text, "%.1f GiB", std::atof(total[0].c_str()) / (1 << 20));  // from KiB
    return text;
}

std::string kernel_of(const std::string& sys_kernel) {
    std::string type, release;
    std::getline(std::ifstream(sys_kernel + "/ostype"), type);
    std::getline(std::ifstream(sys_kernel + "/osrelease"), release);
    return release.empty() ? "unknown" : type + " " + release;
}

std::string job() {
    constexpr std::pair<const char*, const char*> of_schedulers[] = {
        {"SLURM_JOB_ID", "Slurm"}, {"PBS_JOBID", "PBS"}, {"LSB_JOBID", "LSF"}, {"FLUX_JOB_ID", "Flux"}};
    for (const auto& [variable, scheduler] : of_schedulers)
        if (const char* id = std::getenv(variable)) return std::string(scheduler) + " " + id;
    return "none";
}

/// Returns an IP address as numeric text; empty for other address families.
std::string digits_of(const sockaddr* address) {
    char text[NI_MAXHOST] = "";
    if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6)) return "";
    const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    return getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

bool of_one_link(const std::string& digits) { return digits.starts_with("fe80:") || digits.starts_with("169.254."); }

}  // namespace

std::vector<std::string> own_addresses() {
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0) return {};
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> interfaces(first, freeifaddrs);
    std::vector<std::string> addresses;
    for (const ifaddrs* i = first; i; i = i->ifa_next)
        if (const std::string digits = digits_of(i->ifa_addr);
            !digits.empty() && !(i->ifa_flags & IFF_LOOPBACK) && !of_one_link(digits))
            addresses.push_back(digits);
    std::stable_partition(addresses.begin(), addresses.end(),
                          [](const std::string& digits) { return digits.find(':') == std::string::npos; });
    return addresses;
}

bool is_this_host(const std::string& name, const std::string& host) {
    if (name.substr(0, name.find('.')) == host.substr(0, host.find('.'))) return true;
    addrinfo* found = nullptr;
    if (getaddrinfo(name.c_str(), nullptr, nullptr, &found) != 0) return false;
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
    const std::vector<std::string> own = own_addresses();
    for (const addrinfo* i = found; i; i = i->ai_next)
        if (const std::string digits = digits_of(i->ai_addr);
            digits.starts_with("127.") || digits == "::1" || std::find(own.begin(), own.end(), digits) != own.end())
            return true;
    return false;
}

Facts facts_of_host(const std::string& root) {
    const std::vector<std::string> addresses = own_addresses();
    return {{"os", first_or_unknown(entries(root + "/etc/os-release", "PRETTY_NAME", '='))},
            {"kernel", kernel_of(root + "/proc/sys/kernel")},
            {"cpu", cpu_of(root + "/proc/cpuinfo")},
            {"memory", memory_of(root + "/proc/meminfo")},
            {"ip", addresses.empty() ? "none" : joined(addresses, ", ")},
            {"job", job()}};
}

}  // namespace convoy
