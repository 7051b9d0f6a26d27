#include "bundle.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <openvino/core/preprocess/pre_post_process.hpp>
#include <stdexcept>

#include "sha256.hpp"

using nlohmann::json;
using ov::preprocess::ResizeAlgorithm;

namespace {

json read_manifest(const std::string& folder) {
    std::ifstream file(folder + "/manifest.json");
    if (!file) {
        throw std::runtime_error(folder + " is no bundle: there is no manifest.json in it");
    }
    const json manifest = json::parse(file);
    const auto& target = manifest.at("target");
    if (target.at("name") != "openvino") {
        throw std::runtime_error(folder + " is a bundle for " + target.at("profile").get<std::string>() +
                                 ", this program takes those for intel-cpu, intel-gpu and intel-npu");
    }
    const auto& declared = manifest.at("preprocessing");
    if (declared.is_null() || declared.at("kind") != "image") {
        throw std::runtime_error(folder + " does not say how a picture becomes its input");
    }
    return manifest;
}

// Holds what is loaded against the manifest, which lists the SHA-256 of every file.
void require_unchanged(const std::string& folder, const json& manifest) {
    const auto is_of_model = [&manifest](const std::string& path) {
        for (const auto& part : manifest.at("model").at("files")) {
            const auto name = part.get<std::string>();
            if (path == name || path.rfind(name + "/", 0) == 0) return true;
        }
        return false;
    };
    for (const auto& record : manifest.at("files")) {
        const auto path = record.at("path").get<std::string>();
        if (is_of_model(path) && sha256_of_file(folder + "/" + path) != record.at("sha256").get<std::string>()) {
            throw std::runtime_error(path + " is not as the bundle's manifest has it");
        }
    }
}

ResizeAlgorithm algorithm(const std::string& interpolation) {
    if (interpolation == "bilinear") return ResizeAlgorithm::RESIZE_BILINEAR_PILLOW;
    if (interpolation == "bicubic") return ResizeAlgorithm::RESIZE_BICUBIC_PILLOW;
    if (interpolation == "nearest") return ResizeAlgorithm::RESIZE_NEAREST;
    throw std::runtime_error("this program cannot resize by interpolation " + interpolation);
}

// Numbers for every channel: the manifest has one for all, or one each.
std::vector<double> per_channel(const json& numbers, std::size_t channels) {
    std::vector<double> values;
    for (std::size_t channel = 0; channel < channels; ++channel) {
        values.push_back(numbers.at(channel % numbers.size()));
    }
    return values;
}

Preprocessing preprocessing_of(const json& declared) {
    Preprocessing found;
    found.height = declared.at("size").at(0);
    found.width = declared.at("size").at(1);
    found.channels = declared.at("color") == "GRAY" ? 1 : 3;
    found.normalization = {declared.at("scale"), per_channel(declared.at("mean"), found.channels),
                           per_channel(declared.at("std"), found.channels)};
    found.resize = declared.at("resize");
    found.crop_fraction = declared.at("crop_fraction");
    found.pad_value = declared.at("pad_value");
    found.centered = declared.at("pad_align") == "center";
    return found;
}

std::vector<float> divided(const std::vector<double>& numbers, double divisor) {
    std::vector<float> values;
    for (const double number : numbers) values.push_back(static_cast<float>(number / divisor));
    return values;
}

// The model with what the manifest declares in front of it: it takes 8-bit pixels (NHWC) of any height and width, and
// gives 32-bit floats. (pixel * scale - mean) / std is (pixel - mean / scale) / (std / scale).
std::shared_ptr<ov::Model> with_preprocessing(const std::shared_ptr<ov::Model>& model, const json& declared,
                                              const Preprocessing& preprocessing) {
    ov::preprocess::PrePostProcessor processor(model);
    auto& input = processor.input();
    input.tensor().set_element_type(ov::element::u8).set_layout("NHWC");
    input.model().set_layout(ov::Layout(declared.at("layout").get<std::string>()));
    auto& steps = input.preprocess();
    steps.convert_element_type(ov::element::f32);
    if (preprocessing.resize != "none") {
        input.tensor().set_spatial_dynamic_shape();
        steps.resize(algorithm(declared.at("interpolation")));
    }
    if (declared.at("color") == "BGR") {
        steps.reverse_channels();
    }
    const auto& [scale, mean, deviation] = preprocessing.normalization;
    steps.mean(divided(mean, scale)).scale(divided(deviation, scale));
    for (std::size_t position = 0; position < model->outputs().size(); ++position) {
        processor.output(position).tensor().set_element_type(ov::element::f32);
    }
    return processor.build();
}

}  // namespace

Bundle::Bundle(const std::string& folder, const std::string& device) : folder_(folder) {
    const json manifest = read_manifest(folder);
    require_unchanged(folder, manifest);
    preprocessing_ = preprocessing_of(manifest.at("preprocessing"));
    if (!manifest.at("labels").is_null()) {
        labels_ = manifest.at("labels").get<std::vector<std::string>>();
    }
    for (const auto& output : manifest.at("outputs")) {
        native_names_[output.at("name")] = output.at("native_name");
    }
    ov::Core core;
    const auto file = folder + "/" + manifest.at("model").at("main").get<std::string>();
    const auto model = with_preprocessing(core.read_model(file), manifest.at("preprocessing"), preprocessing_);
    // The bundle was verified in float32; some processors would compute in bfloat16.
    const ov::AnyMap precision{ov::hint::inference_precision(ov::element::f32)};
    request_ = core.compile_model(model, device, device == "CPU" ? precision : ov::AnyMap{}).create_infer_request();
}

// The picture in the proportions of the model's input; OpenVINO scales it from there.
Picture Bundle::fitted(const Picture& picture) const {
    const std::size_t height = preprocessing_.height, width = preprocessing_.width;
    const std::string& resize = preprocessing_.resize;
    if (resize == "none" && (picture.height != height || picture.width != width)) {
        throw std::runtime_error("the picture has not the size that the model wants");
    }
    if (resize == "none" || resize == "stretch") {
        return picture;
    }
    const double rows = static_cast<double>(picture.height) / static_cast<double>(height);
    const double columns = static_cast<double>(picture.width) / static_cast<double>(width);
    // Pixels of the picture that one pixel of the input stands for.
    const double step = resize == "crop" ? std::min(rows, columns) * preprocessing_.crop_fraction : std::max(rows, columns);
    const auto new_height = static_cast<std::size_t>(std::lround(step * static_cast<double>(height)));
    const auto new_width = static_cast<std::size_t>(std::lround(step * static_cast<double>(width)));
    const bool in_the_middle = resize == "crop" || preprocessing_.centered;
    const auto gap = [in_the_middle](std::size_t outer, std::size_t inner) {
        return in_the_middle ? (static_cast<std::ptrdiff_t>(outer) - static_cast<std::ptrdiff_t>(inner)) / 2 : 0;
    };
    return picture.placed(new_height, new_width, gap(new_height, picture.height), gap(new_width, picture.width),
                          preprocessing_.pad_value);
}

double Bundle::run(const Picture& picture) {
    Picture input = fitted(preprocessing_.channels == 1 ? picture.grey() : picture);
    const ov::Shape shape{1, input.height, input.width, input.channels};
    request_.set_input_tensor(ov::Tensor(ov::element::u8, shape, input.pixels.data()));
    const auto start = std::chrono::steady_clock::now();
    request_.infer();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

ov::Tensor Bundle::output() { return request_.get_output_tensor(0); }

ov::Tensor Bundle::output(const std::string& name) {
    const auto found = native_names_.find(name);
    if (found == native_names_.end()) {
        throw std::runtime_error(folder_ + " has no output " + name);
    }
    return request_.get_tensor(found->second);
}
