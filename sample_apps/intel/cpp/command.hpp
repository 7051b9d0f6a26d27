// What the programs' command lines have in common.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

struct Usage {
    std::string program;
    std::string names;  // of the arguments, as the usage tells them
    std::size_t least = 1;
    std::size_t most = 1;
};

struct Command {
    std::string device = "CPU";
    std::vector<std::string> arguments;
};

// Runs a program by its command line, [--device NAME] and `least` to `most` arguments, and gives its exit code: 2 after
// the usage where the command line is another, 1 after the error where the program throws std::exception.
int run(int count, char** values, const Usage& usage, const std::function<void(const Command&)>& program);
