#include "command.hpp"

#include <cstdio>
#include <exception>

int run(int count, char** values, const Usage& usage, const std::function<void(const Command&)>& program) {
    Command command;
    command.arguments.assign(values + 1, values + count);
    auto& arguments = command.arguments;
    if (arguments.size() >= 2 && arguments[0] == "--device") {
        command.device = arguments[1];
        arguments.erase(arguments.begin(), arguments.begin() + 2);
    }
    const char* name = usage.program.c_str();
    if (arguments.size() < usage.least || arguments.size() > usage.most) {
        std::fprintf(stderr, "usage: %s [--device NAME] %s\n", name, usage.names.c_str());
        return 2;
    }
    try {
        program(command);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return 1;
    }
    return 0;
}
