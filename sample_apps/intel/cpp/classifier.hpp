// Classifies pictures with the bundle of a classifier.
#pragma once

#include <optional>
#include <string>

#include "bundle.hpp"
#include "picture.hpp"

struct Answer {
    std::string label;
    std::optional<float> probability;
    double milliseconds = 0;

    // The probability in percent with `digits` decimal places, followed by `end`; empty if there is no probability.
    std::string percent(int digits, const std::string& end = "") const;
};

class Classifier {
public:
    // Throws as Bundle does.
    Classifier(const std::string& folder, const std::string& device) : bundle_(folder, device) {}

    // The most probable class of an RGB picture, its probability and the inference's time. The probability is the
    // softmax of logits, else the number that the model returns; none if the model returns only the class's number,
    // or integers of which no probability follows.
    Answer classify(const Picture& picture);

private:
    Bundle bundle_;
};
