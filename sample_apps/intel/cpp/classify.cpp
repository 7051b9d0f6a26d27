// Classifies pictures with an OpenVINO bundle: classify [--device NAME] BUNDLE PICTURE…

#include <cstdint>
#include <cstdio>

#include "classifier.hpp"
#include "command.hpp"

int main(int count, char** values) {
    return run(count, values, {"classify", "BUNDLE PICTURE…", 2, SIZE_MAX}, [](const Command& command) {
        Classifier classifier(command.arguments[0], command.device);
        for (std::size_t position = 1; position < command.arguments.size(); ++position) {
            const auto& file = command.arguments[position];
            const Answer answer = classifier.classify(Picture::read(file));
            std::printf("%s: %s (%s%.2f ms)\n", file.c_str(), answer.label.c_str(), answer.percent(1, ", ").c_str(),
                        answer.milliseconds);
        }
    });
}
