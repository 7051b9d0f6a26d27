// A bundle's model in OpenVINO, fed with pictures as the bundle's manifest declares.
#pragma once

#include <openvino/openvino.hpp>
#include <string>
#include <vector>

#include "picture.hpp"

struct Answer {
    std::string label;
    float probability = 0;
    double milliseconds = 0;
};

class Classifier {
public:
    // Compiles the model of the bundle in `folder` for a device (CPU, GPU, NPU), with resizing and normalization in it.
    // Throws std::exception where the bundle cannot be read, where a file of the model is not as the manifest has it
    // (SHA-256), or where it does not say how a picture becomes its input.
    Classifier(const std::string& folder, const std::string& device);

    Answer classify(const std::string& picture);

private:
    struct Preprocessing {
        std::size_t height = 0;
        std::size_t width = 0;
        std::size_t channels = 0;
        std::string resize;
        double crop_fraction = 1;
        std::uint8_t pad_value = 0;
        bool centered = true;
    };

    Picture fitted(const Picture& picture) const;

    Preprocessing preprocessing_;
    std::vector<std::string> labels_;
    ov::InferRequest request_;
};
