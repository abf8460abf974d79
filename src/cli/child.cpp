#include "cli/child.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>

namespace convoy {
namespace {

constexpr int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

// Global, because a signal handler has no other access.
volatile std::sig_atomic_t first = 0, child = 0;
struct sigaction before[std::size(passed_on)];

void on_signal(int signal, siginfo_t* info, void*) {
    if (first == 0) first = signal;
    // the child gets signals of the terminal directly
    if (info->si_code != SI_KERNEL && child > 0) ::kill(child, signal);
}

sigset_t passed_on_set() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : passed_on) sigaddset(&set, signal);
    return set;
}

/// Replaces a forked child by the program. Calls only functions that are safe after fork().
[[noreturn]] void become(const char* file, char* const* words, const sigset_t& mask, pid_t parent, int output) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);
    for (int descriptor = 1; output >= 0 && descriptor <= 2; ++descriptor) ::dup2(output, descriptor);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);  // exec resets the handlers
    ::execvp(file, words);
    ::_exit(127);
}

}  // namespace

std::vector<std::string> absolute_entries(const std::string& list) {
    std::vector<std::string> entries;
    std::istringstream stream(list);
    for (std::string entry; std::getline(stream, entry, ':');)
        if (entry.starts_with('/')) entries.push_back(entry);
    return entries;
}

std::string program(const std::string& name) {
    if (name.find('/') != std::string::npos) return name;
    const char* path = std::getenv("PATH");
    std::error_code unseen;
    for (const std::string& folder : absolute_entries(path ? path : "/usr/bin:/bin")) {
        const std::string file = folder + "/" + name;
        if (std::filesystem::is_regular_file(file, unseen) && ::access(file.c_str(), X_OK) == 0) return file;
    }
    return "";
}

ChildSignals::ChildSignals() {
    struct sigaction action{};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    first = 0;
    for (size_t i = 0; i < std::size(passed_on); ++i) {
        sigaction(passed_on[i], nullptr, &before[i]);
        if (before[i].sa_handler != SIG_IGN) sigaction(passed_on[i], &action, nullptr);  // nohup ignores HUP
    }
}

ChildSignals::~ChildSignals() {
    for (size_t i = 0; i < std::size(passed_on); ++i) sigaction(passed_on[i], &before[i], nullptr);
}

int ChildSignals::received() const { return first; }

int ChildSignals::run(const std::vector<std::string>& words, int output, const std::string& file) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    const sigset_t set = passed_on_set();
    sigset_t mask;
    ::sigprocmask(SIG_BLOCK, &set, &mask);  // until the child's number is known
    const pid_t parent = ::getpid(), started = first == 0 ? ::fork() : -1;
    if (started == 0) become(file.empty() ? pointers[0] : file.c_str(), pointers.data(), mask, parent, output);
    child = started;
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    if (started < 0) return first == 0 ? 127 : 128 + first;
    siginfo_t ended{};
    while (::waitid(P_PID, id_t(started), &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    child = 0;  // another process may get its number from now on
    int status = 0;
    if (::waitpid(started, &status, 0) < 0) return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace convoy
