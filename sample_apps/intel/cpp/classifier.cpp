#include "classifier.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <vector>

std::string Answer::percent(int digits, const std::string& end) const {
    if (!probability) return "";
    char text[32];
    std::snprintf(text, sizeof text, "%.*f%%", digits, 100 * *probability);
    return text + end;
}

Answer Classifier::classify(const Picture& picture) {
    const double milliseconds = bundle_.run(picture);
    const ov::Tensor output = bundle_.classes_output();
    const auto* numbers = output.data<const float>();
    if (bundle_.scores() == Scores::none) {
        return {bundle_.label_of_number(std::lrint(numbers[0])), std::nullopt, milliseconds};
    }
    std::vector<float> scores(output.get_size());
    std::transform(numbers, numbers + scores.size(), scores.begin(), [&](float number) { return bundle_.scored(number); });
    const auto best = std::max_element(scores.begin(), scores.end());
    std::optional<float> probability;
    if (bundle_.scores() == Scores::logits) {
        probability = 1 / std::accumulate(scores.begin(), scores.end(), 0.0F,
                                          [&](float sum, float score) { return sum + std::exp(score - *best); });
    } else if (bundle_.scores() != Scores::integers) {
        probability = *best;
    }
    return {bundle_.label(static_cast<std::size_t>(best - scores.begin())), probability, milliseconds};
}
