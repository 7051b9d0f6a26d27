#include "bundle.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <openvino/core/preprocess/pre_post_process.hpp>
#include <openvino/runtime/core.hpp>
#include <stdexcept>

#include "sha256.hpp"

using nlohmann::json;

namespace {

json read_manifest(const std::string& folder) {
    std::ifstream file(folder + "/manifest.json");
    if (!file) {
        throw std::runtime_error(folder + " is not a bundle: there is no manifest.json in it");
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

// Compares the model's files with the manifest, which lists the SHA-256 of every file.
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

// The kind of class scores that a name in the manifest denotes.
Scores scores_of(const json& called) {
    if (called.is_null()) return Scores::none;
    static const std::map<std::string, Scores> known{{"probabilities", Scores::probabilities},
                                                     {"logits", Scores::logits},
                                                     {"independent", Scores::independent},
                                                     {"integers", Scores::integers}};
    return known.at(called.get<std::string>());
}

// The model with inputs and outputs converted to 32-bit floats.
std::shared_ptr<ov::Model> with_floats(const std::shared_ptr<ov::Model>& model) {
    ov::preprocess::PrePostProcessor processor(model);
    processor.input().tensor().set_element_type(ov::element::f32);
    for (std::size_t position = 0; position < model->outputs().size(); ++position) {
        processor.output(position).tensor().set_element_type(ov::element::f32);
    }
    return processor.build();
}

}  // namespace

Bundle::Bundle(const std::string& folder, const std::string& device) : folder_(folder) {
    const json manifest = read_manifest(folder);
    require_unchanged(folder, manifest);
    preprocessing_ = Preprocessing(manifest.at("preprocessing"));
    if (!manifest.at("labels").is_null()) {
        labels_ = manifest.at("labels").get<std::vector<std::string>>();
    }
    for (const auto& output : manifest.at("outputs")) {
        native_names_[output.at("name")] = output.at("native_name");
    }
    classes_output_ = manifest.at("outputs").at(0).at("name");
    if (const auto& classes = manifest.at("classes"); !classes.is_null()) {
        classes_output_ = classes.at("output");
        scores_ = scores_of(classes.at("scores"));
        scale_ = classes.value("scale", 1.0F);
        zero_point_ = classes.value("zero_point", 0.0F);
        numbers_ = classes.value("numbers", std::vector<long>{});
    }
    ov::Core core;
    const auto file = folder + "/" + manifest.at("model").at("main").get<std::string>();
    const auto model = with_floats(core.read_model(file));
    // The bundle was verified in float32; some processors would compute in bfloat16.
    const ov::AnyMap precision{ov::hint::inference_precision(ov::element::f32)};
    request_ = core.compile_model(model, device, device == "CPU" ? precision : ov::AnyMap{}).create_infer_request();
}

std::string Bundle::label(std::size_t position) const {
    return position < labels_.size() ? labels_[position] : std::to_string(position);
}

std::string Bundle::label_of_number(long number) const {
    const auto place = std::find(numbers_.begin(), numbers_.end(), number);
    const auto position = static_cast<std::size_t>(numbers_.empty() ? number : place - numbers_.begin());
    return position < labels_.size() ? labels_[position] : std::to_string(number);
}

double Bundle::run(const Picture& picture) {
    request_.set_input_tensor(preprocessing_.input(picture));
    const auto start = std::chrono::steady_clock::now();
    request_.infer();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

ov::Tensor Bundle::output() { return request_.get_output_tensor(0); }

ov::Tensor Bundle::classes_output() { return output(classes_output_); }

ov::Tensor Bundle::output(const std::string& name) {
    const auto found = native_names_.find(name);
    if (found == native_names_.end()) {
        throw std::runtime_error(folder_ + " has no output " + name);
    }
    return request_.get_tensor(found->second);
}
