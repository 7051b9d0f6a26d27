// Which class a picture shows, by the bundle of a classifier.
#pragma once

#include <optional>
#include <string>

#include "bundle.hpp"
#include "picture.hpp"

struct Answer {
    std::string label;
    std::optional<float> probability;
    double milliseconds = 0;

    // The probability in percent with that many digits, and what stands behind it; empty without a probability.
    std::string percent(int digits, const std::string& end = "") const;
};

class Classifier {
public:
    // Throws as Bundle does.
    Classifier(const std::string& folder, const std::string& device) : bundle_(folder, device) {}

    // The likeliest class of a picture in RGB, its probability and the inference's time. The probability is the softmax
    // of logits, else the model's own number; none where the model tells the class alone.
    Answer classify(const Picture& picture);

private:
    Bundle bundle_;
};
