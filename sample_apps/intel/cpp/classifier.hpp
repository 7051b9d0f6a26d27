// Which class a picture shows, by the bundle of a classifier.
#pragma once

#include <string>

#include "bundle.hpp"
#include "picture.hpp"

struct Answer {
    std::string label;
    float probability = 0;
    double milliseconds = 0;
};

class Classifier {
public:
    // Throws as Bundle does.
    Classifier(const std::string& folder, const std::string& device) : bundle_(folder, device) {}

    // The likeliest class of a picture in RGB, its probability (the softmax of the first output) and the inference's time.
    Answer classify(const Picture& picture);

private:
    Bundle bundle_;
};
