// A bundle's model in OpenVINO, whose input is made from pictures as the bundle's manifest declares.
#pragma once

#include <map>
#include <openvino/runtime/infer_request.hpp>
#include <string>
#include <vector>

#include "picture.hpp"
#include "preprocessing.hpp"

// The kind of numbers in the output for classification; `none` means that the output is the number of a class.
enum class Scores { probabilities, logits, independent, integers, none };

class Bundle {
public:
    // Compiles the model of the bundle in `folder` for a device (CPU, GPU, NPU).
    // Throws std::exception if the bundle cannot be read or is for another runtime, if a file of the model does not
    // have the SHA-256 in the manifest, or if the manifest does not declare preprocessing for pictures.
    Bundle(const std::string& folder, const std::string& device);

    const std::string& folder() const { return folder_; }
    const Preprocessing& preprocessing() const { return preprocessing_; }

    // The name of the class at a position among the scores, or of the class that the model calls by a number; the
    // number itself where the class has no name.
    std::string label(std::size_t position) const;
    std::string label_of_number(long number) const;

    // Runs the model on an RGB picture, and returns the milliseconds that the inference took. Throws std::runtime_error
    // if the model takes only one size and the picture has another.
    double run(const Picture& picture);

    // An output of the last `run` as 32-bit floats: the first one, or the one with this name in the original model.
    // Throws std::runtime_error if the model has no output of this name.
    ov::Tensor output();
    ov::Tensor output(const std::string& name);

    // The output of the last `run` for classification, and the kind of its numbers; by default, if the manifest does
    // not declare classes, the first output and logits. `scored` is what a number of the output stands for.
    ov::Tensor classes_output();
    Scores scores() const { return scores_; }
    float scored(float number) const { return (number - zero_point_) * scale_; }

private:
    std::string folder_;
    Preprocessing preprocessing_;
    std::vector<std::string> labels_;
    std::map<std::string, std::string> native_names_;
    std::string classes_output_;
    Scores scores_ = Scores::logits;
    float scale_ = 1, zero_point_ = 0;
    std::vector<long> numbers_;  // of the classes, as the model gives them; empty if they are 0, 1 and so on
    ov::InferRequest request_;
};
