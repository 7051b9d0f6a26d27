#include "classifier.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>

std::string Answer::percent(int digits, const std::string& end) const {
    if (!probability) return "";
    char text[32];
    std::snprintf(text, sizeof text, "%.*f%%", digits, 100 * *probability);
    return text + end;
}

Answer Classifier::classify(const Picture& picture) {
    const double milliseconds = bundle_.run(picture);
    const ov::Tensor output = bundle_.classes_output();
    const auto* scores = output.data<const float>();
    const std::size_t classes = output.get_size();
    const bool tells_number = bundle_.scores() == Scores::none;
    const auto best = static_cast<std::size_t>(tells_number ? scores[0] : std::max_element(scores, scores + classes) - scores);
    std::optional<float> probability;
    if (bundle_.scores() == Scores::logits) {
        probability = 1 / std::accumulate(scores, scores + classes, 0.0F, [&](float sum, float score) {
            return sum + std::exp(score - scores[best]);
        });
    } else if (!tells_number) {
        probability = scores[best];
    }
    const auto& labels = bundle_.labels();
    return {best < labels.size() ? labels[best] : std::to_string(best), probability, milliseconds};
}
