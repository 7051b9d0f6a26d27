#include "preprocessing.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "resize.hpp"

using nlohmann::json;

namespace {

// One number per channel; the manifest has one number for all channels, or one for each.
std::vector<double> per_channel(const json& numbers, std::size_t channels) {
    std::vector<double> values;
    for (std::size_t channel = 0; channel < channels; ++channel) {
        values.push_back(numbers.at(channel % numbers.size()));
    }
    return values;
}

// Rounds to the nearest whole number, and ties to the even number, as Python does.
std::ptrdiff_t rounded(double value) { return std::lrint(value); }

std::size_t length(double value) { return static_cast<std::size_t>(rounded(value)); }

}  // namespace

Preprocessing::Preprocessing(const json& declared)
    : height_(declared.at("size").at(0)),
      width_(declared.at("size").at(1)),
      color_(declared.at("color")),
      layout_(declared.at("layout")),
      resize_(declared.at("resize")),
      interpolation_(declared.at("interpolation")),
      crop_fraction_(declared.at("crop_fraction")),
      pad_value_(declared.at("pad_value")),
      is_centered_(declared.at("pad_align") == "center") {
    normalization_ = {declared.at("scale"), per_channel(declared.at("mean"), channels()),
                      per_channel(declared.at("std"), channels())};
    const std::string dtype = declared.at("dtype");
    is_whole_ = dtype.find("int") != std::string::npos;
    if (dtype == "uint8") {
        least_ = 0, most_ = 255;
    } else if (dtype == "int8") {
        least_ = -128, most_ = 127;
    }
}

// The picture resized to the model's size as the manifest declares.
Picture Preprocessing::fitted(const Picture& picture) const {
    if (resize_ == "none") {
        if (picture.height != height_ || picture.width != width_) {
            throw std::runtime_error("the picture has not the size that the model wants");
        }
        return picture;
    }
    if (resize_ == "stretch") return resized(picture, height_, width_, interpolation_);
    const auto rows = static_cast<double>(picture.height), columns = static_cast<double>(picture.width);
    const auto height = static_cast<double>(height_), width = static_cast<double>(width_);
    if (resize_ == "crop") {
        const double factor = std::max(width / columns, height / rows) / crop_fraction_;
        const Picture scaled = resized(picture, length(rows * factor), length(columns * factor), interpolation_);
        const auto top = rounded((static_cast<double>(scaled.height) - height) / 2);
        const auto left = rounded((static_cast<double>(scaled.width) - width) / 2);
        return scaled.placed(height_, width_, -top, -left, 0);
    }
    const bool is_wide = columns / rows > width / height;
    const std::size_t new_height = is_wide ? length(rows / columns * width) : height_;
    const std::size_t new_width = is_wide ? width_ : length(columns / rows * height);
    const double share = is_centered_ ? 0.5 : 0;
    return resized(picture, new_height, new_width, interpolation_)
        .placed(height_, width_, rounded(static_cast<double>(height_ - new_height) * share),
                rounded(static_cast<double>(width_ - new_width) * share), pad_value_);
}

ov::Tensor Preprocessing::input(const Picture& picture) const {
    const Picture pixels = fitted(channels() == 1 ? picture.grey() : picture);
    ov::Shape shape;
    for (const char letter : layout_) {
        shape.push_back(letter == 'H' ? height_ : letter == 'W' ? width_ : letter == 'C' ? channels() : 1);
    }
    // Distance in the tensor between neighbors along an axis.
    const auto step = [&](char letter) {
        std::size_t product = 1;
        for (std::size_t axis = layout_.find(letter) + 1; axis < shape.size(); ++axis) product *= shape[axis];
        return product;
    };
    const std::size_t down = step('H'), across = step('W'), deep = channels() == 1 ? 0 : step('C');
    const auto& [scale, mean, deviation] = normalization_;
    ov::Tensor tensor(ov::element::f32, shape);
    auto* values = tensor.data<float>();
    for (std::size_t place = 0; place < pixels.pixels.size(); ++place) {
        const std::size_t pixel = place / channels(), channel = place % channels();
        const std::size_t layer = color_ == "BGR" ? channels() - 1 - channel : channel;
        const double value = (pixels.pixels[place] * scale - mean[layer]) / deviation[layer];
        values[pixel / width_ * down + pixel % width_ * across + layer * deep] =
            static_cast<float>(is_whole_ ? std::clamp(std::nearbyint(value), least_, most_) : value);
    }
    return tensor;
}
