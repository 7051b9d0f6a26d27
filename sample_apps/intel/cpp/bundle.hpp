// A bundle's model in OpenVINO, fed with pictures as the bundle's manifest declares.
#pragma once

#include <map>
#include <openvino/openvino.hpp>
#include <string>
#include <vector>

#include "picture.hpp"
#include "preprocessing.hpp"

// What the numbers of the output that tells the class are: `none` is the number of a class.
enum class Scores { probabilities, logits, independent, none };

class Bundle {
public:
    // Compiles the model of the bundle in `folder` for a device (CPU, GPU, NPU).
    // Throws std::exception where the bundle cannot be read or is for another runtime, where a file of the model is not
    // as the manifest has it (SHA-256), or where it does not say how a picture becomes its input.
    Bundle(const std::string& folder, const std::string& device);

    const std::string& folder() const { return folder_; }
    const Preprocessing& preprocessing() const { return preprocessing_; }
    const std::vector<std::string>& labels() const { return labels_; }

    // Runs the model on a picture in RGB, and tells the milliseconds that the inference took. Throws std::runtime_error
    // where the model takes one size alone and the picture has another.
    double run(const Picture& picture);

    // What the last `run` computed, as 32-bit floats: the first output, or one by its name in the original model. Throws
    // std::runtime_error where the model has none of this name.
    ov::Tensor output();
    ov::Tensor output(const std::string& name);

    // Of the last `run`, the output that tells the class, and what its numbers are: where the manifest does not say it,
    // the first output and logits.
    ov::Tensor classes_output();
    Scores scores() const { return scores_; }

private:
    std::string folder_;
    Preprocessing preprocessing_;
    std::vector<std::string> labels_;
    std::map<std::string, std::string> native_names_;
    std::string classes_output_;
    Scores scores_ = Scores::logits;
    ov::InferRequest request_;
};
