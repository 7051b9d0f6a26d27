// Classifies pictures with an OpenVINO bundle: classify [--device NAME] BUNDLE PICTURE…

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "bundle.hpp"

int main(int count, char** values) {
    std::vector<std::string> arguments(values + 1, values + count);
    std::string device = "CPU";
    if (arguments.size() >= 2 && arguments[0] == "--device") {
        device = arguments[1];
        arguments.erase(arguments.begin(), arguments.begin() + 2);
    }
    if (arguments.size() < 2) {
        std::fprintf(stderr, "usage: classify [--device NAME] BUNDLE PICTURE…\n");
        return 2;
    }
    try {
        Classifier classifier(arguments[0], device);
        for (std::size_t position = 1; position < arguments.size(); ++position) {
            const Answer answer = classifier.classify(arguments[position]);
            std::printf("%s: %s (%.1f%%, %.2f ms)\n", arguments[position].c_str(), answer.label.c_str(),
                        100 * answer.probability, answer.milliseconds);
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "classify: %s\n", error.what());
        return 1;
    }
    return 0;
}
