// Converts a picture to a model's input, as a bundle's manifest declares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <openvino/runtime/tensor.hpp>
#include <string>
#include <vector>

#include "picture.hpp"

// A value of the model's input is (pixel · scale - mean) / deviation.
struct Normalization {
    double scale = 1;
    std::vector<double> mean;  // one number per channel, as in `deviation`
    std::vector<double> deviation;
};

class Preprocessing {
public:
    Preprocessing() = default;

    // Reads the manifest's `preprocessing`, whose kind is `image`.
    explicit Preprocessing(const nlohmann::json& declared);

    std::size_t height() const { return height_; }
    std::size_t width() const { return width_; }
    std::size_t channels() const { return color_ == "GRAY" ? 1 : 3; }
    const Normalization& normalization() const { return normalization_; }

    // The model's input for an RGB picture: 32-bit floats in the declared layout. Throws std::runtime_error if the
    // model takes only one size and the picture has another.
    ov::Tensor input(const Picture& picture) const;

private:
    Picture fitted(const Picture& picture) const;

    std::size_t height_ = 0;
    std::size_t width_ = 0;
    std::string color_;
    Normalization normalization_;
    bool is_whole_ = false;  // the model takes integers
    double least_ = -1e9, most_ = 1e9;  // what these integers hold
    std::string layout_;
    std::string resize_;
    std::string interpolation_;
    double crop_fraction_ = 1;
    std::uint8_t pad_value_ = 0;
    bool is_centered_ = true;
};
