#include "bundle.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
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
std::vector<float> per_channel(const json& numbers, std::size_t channels, double scale) {
    std::vector<float> values;
    for (std::size_t channel = 0; channel < channels; ++channel) {
        values.push_back(static_cast<float>(numbers.at(channel % numbers.size()).get<double>() / scale));
    }
    return values;
}

// The model with what the manifest declares in front of it: it takes 8-bit pixels (NHWC) of any height and width.
// (pixel * scale - mean) / std is (pixel - mean / scale) / (std / scale).
std::shared_ptr<ov::Model> with_preprocessing(const std::shared_ptr<ov::Model>& model, const json& declared,
                                              std::size_t channels) {
    const double scale = declared.at("scale");
    ov::preprocess::PrePostProcessor processor(model);
    auto& input = processor.input();
    input.tensor().set_element_type(ov::element::u8).set_layout("NHWC").set_spatial_dynamic_shape();
    input.model().set_layout(ov::Layout(declared.at("layout").get<std::string>()));
    auto& steps = input.preprocess();
    steps.convert_element_type(ov::element::f32).resize(algorithm(declared.at("interpolation")));
    if (declared.at("color") == "BGR") {
        steps.reverse_channels();
    }
    steps.mean(per_channel(declared.at("mean"), channels, scale));
    steps.scale(per_channel(declared.at("std"), channels, scale));
    return processor.build();
}

}  // namespace

Classifier::Classifier(const std::string& folder, const std::string& device) {
    const json manifest = read_manifest(folder);
    require_unchanged(folder, manifest);
    const json& declared = manifest.at("preprocessing");
    preprocessing_.height = declared.at("size").at(0);
    preprocessing_.width = declared.at("size").at(1);
    preprocessing_.channels = declared.at("color") == "GRAY" ? 1 : 3;
    preprocessing_.resize = declared.at("resize");
    preprocessing_.crop_fraction = declared.at("crop_fraction");
    preprocessing_.pad_value = declared.at("pad_value");
    preprocessing_.centered = declared.at("pad_align") == "center";
    if (!manifest.at("labels").is_null()) {
        labels_ = manifest.at("labels").get<std::vector<std::string>>();
    }
    ov::Core core;
    const auto file = folder + "/" + manifest.at("model").at("main").get<std::string>();
    const auto model = with_preprocessing(core.read_model(file), declared, preprocessing_.channels);
    request_ = core.compile_model(model, device).create_infer_request();
}

// The picture in the proportions of the model's input; OpenVINO scales it from there.
Picture Classifier::fitted(const Picture& picture) const {
    const auto& [height, width, channels, resize, crop_fraction, pad_value, centered] = preprocessing_;
    if (resize == "none" && (picture.height != height || picture.width != width)) {
        throw std::runtime_error("the picture has not the size that the model wants");
    }
    if (resize == "none" || resize == "stretch") {
        return picture;
    }
    const double rows = static_cast<double>(picture.height) / static_cast<double>(height);
    const double columns = static_cast<double>(picture.width) / static_cast<double>(width);
    // Pixels of the picture that one pixel of the input stands for.
    const double step = resize == "crop" ? std::min(rows, columns) * crop_fraction : std::max(rows, columns);
    const auto new_height = static_cast<std::size_t>(std::lround(step * static_cast<double>(height)));
    const auto new_width = static_cast<std::size_t>(std::lround(step * static_cast<double>(width)));
    const bool in_the_middle = resize == "crop" || centered;
    const auto gap = [in_the_middle](std::size_t outer, std::size_t inner) {
        return in_the_middle ? (static_cast<std::ptrdiff_t>(outer) - static_cast<std::ptrdiff_t>(inner)) / 2 : 0;
    };
    return picture.placed(new_height, new_width, gap(new_height, picture.height), gap(new_width, picture.width),
                          pad_value);
}

Answer Classifier::classify(const std::string& file) {
    Picture picture = fitted(Picture::read(file, preprocessing_.channels));
    const ov::Shape shape{1, picture.height, picture.width, picture.channels};
    request_.set_input_tensor(ov::Tensor(ov::element::u8, shape, picture.pixels.data()));
    const auto start = std::chrono::steady_clock::now();
    request_.infer();
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;

    const ov::Tensor output = request_.get_output_tensor(0);
    const auto* scores = output.data<const float>();
    const std::size_t classes = output.get_size();
    const std::size_t best = static_cast<std::size_t>(std::max_element(scores, scores + classes) - scores);
    const float total = std::accumulate(scores, scores + classes, 0.0F, [&](float sum, float score) {
        return sum + std::exp(score - scores[best]);
    });
    return {best < labels_.size() ? labels_[best] : std::to_string(best), 1 / total, elapsed.count()};
}
