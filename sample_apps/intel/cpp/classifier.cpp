#include "classifier.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

Answer Classifier::classify(const Picture& picture) {
    const double milliseconds = bundle_.run(picture);
    const ov::Tensor output = bundle_.output();
    const auto* scores = output.data<const float>();
    const std::size_t classes = output.get_size();
    const std::size_t best = static_cast<std::size_t>(std::max_element(scores, scores + classes) - scores);
    const float total = std::accumulate(scores, scores + classes, 0.0F, [&](float sum, float score) {
        return sum + std::exp(score - scores[best]);
    });
    const auto& labels = bundle_.labels();
    return {best < labels.size() ? labels[best] : std::to_string(best), 1 / total, milliseconds};
}
