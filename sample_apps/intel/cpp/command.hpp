// The common part of the programs' command lines.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

struct Usage {
    std::string program;
    std::string names;  // names of the arguments in the usage text
    std::size_t least = 1;
    std::size_t most = 1;
};

struct Command {
    std::string device = "CPU";
    std::vector<std::string> arguments;
};

// Runs a program with its command line, [--device NAME] and `least` to `most` arguments, and returns its exit code: 2,
// with the usage text, if the number of arguments is wrong; 1, with the error, if the program throws std::exception.
int run(int count, char** values, const Usage& usage, const std::function<void(const Command&)>& program);
