// Finds faces and tells what they express: recognize [--device NAME] FACES EXPRESSIONS PICTURE OUT.png, two OpenVINO bundles.
// Built by ../intel/cpp, which has what reads bundles and pictures.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stb_easy_font.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "bundle.hpp"
#include "classifier.hpp"
#include "command.hpp"
#include "picture.hpp"

namespace {

constexpr std::array<std::size_t, 3> STRIDES{8, 16, 32};
constexpr float LEAST_SCORE = 0.7F;
constexpr double MOST_OVERLAP = 0.3;
constexpr double MARGIN = 0.1;  // of the face's longer side, on each side of it

// A face in the picture's pixels.
struct Box {
    double left;
    double top;
    double width;
    double height;
    float score;

    // Intersection over union.
    double overlap(const Box& other) const {
        const double across = std::min(left + width, other.left + other.width) - std::max(left, other.left);
        const double down = std::min(top + height, other.top + other.height) - std::max(top, other.top);
        const double common = std::max(across, 0.0) * std::max(down, 0.0);
        return common / (width * height + other.width * other.height - common);
    }
};

// The bundle of YuNet.
class FaceDetector {
public:
    // Throws as Bundle does.
    FaceDetector(const std::string& folder, const std::string& device) : bundle_(folder, device) {}

    // The faces in a picture in RGB, the surest first.
    std::vector<Box> find(const Picture& picture) {
        const auto& input = bundle_.preprocessing();
        const double factor = std::min(static_cast<double>(input.width()) / static_cast<double>(picture.width),
                                       static_cast<double>(input.height()) / static_cast<double>(picture.height));
        bundle_.run(picture);
        std::vector<Box> found;
        for (const std::size_t stride : STRIDES) add_boxes(stride, found);
        std::stable_sort(found.begin(), found.end(), [](const Box& a, const Box& b) { return a.score > b.score; });
        std::vector<Box> kept;
        for (const Box& box : found) {
            const auto is_near = [&box](const Box& better) { return box.overlap(better) > MOST_OVERLAP; };
            if (std::none_of(kept.begin(), kept.end(), is_near)) kept.push_back(box);
        }
        for (Box& box : kept) {
            for (double* side : {&box.left, &box.top, &box.width, &box.height}) *side /= factor;
        }
        return kept;
    }

private:
    // The boxes of one of YuNet's grids in the network's pixels, decoded as OpenCV's FaceDetectorYN does: `cls` is the
    // probability that a cell's class is right, `obj` that it holds an object; `bbox` has the centre's place in the cell,
    // and the logarithms of width and height in strides.
    void add_boxes(std::size_t stride, std::vector<Box>& found) {
        const std::size_t columns = bundle_.preprocessing().width() / stride;
        const std::size_t cells = bundle_.preprocessing().height() / stride * columns;
        const ov::Tensor cls = values("cls", stride, cells), obj = values("obj", stride, cells);
        const ov::Tensor bbox = values("bbox", stride, 4 * cells);
        const double size = static_cast<double>(stride);
        for (std::size_t cell = 0; cell < cells; ++cell) {
            const float score = std::sqrt(cls.data<const float>()[cell] * obj.data<const float>()[cell]);
            if (!(score >= LEAST_SCORE)) continue;
            const float* side = bbox.data<const float>() + 4 * cell;
            const double width = std::exp(side[2]) * size, height = std::exp(side[3]) * size;
            const double x = (static_cast<double>(cell % columns) + side[0]) * size;
            const double y = (static_cast<double>(cell / columns) + side[1]) * size;
            found.push_back({x - width / 2, y - height / 2, width, height, score});
        }
    }

    ov::Tensor values(const std::string& part, std::size_t stride, std::size_t count) {
        const std::string name = part + "_" + std::to_string(stride);
        const ov::Tensor output = bundle_.output(name);
        if (output.get_size() != count) {
            throw std::runtime_error(bundle_.folder() + ": output " + name + " has " +
                                     std::to_string(output.get_size()) + " numbers, YuNet's has " +
                                     std::to_string(count));
        }
        return output;
    }

    Bundle bundle_;
};

// A square around the face; what lies outside of the picture is black.
Picture cut_face(const Picture& picture, const Box& box) {
    const double side = std::max(box.width, box.height) * (1 + 2 * MARGIN);
    const double left = box.left + (box.width - side) / 2, top = box.top + (box.height - side) / 2;
    const long column = std::lrint(left), row = std::lrint(top);
    const auto width = static_cast<std::size_t>(std::lrint(left + side) - column);
    const auto height = static_cast<std::size_t>(std::lrint(top + side) - row);
    return picture.placed(height, width, -row, -column, 0);
}

// Writes a line of text from its left upper corner; a point of the font, of which a line has about eight, is a square of
// `size` pixels. The font has ASCII alone.
void write_text(Picture& picture, std::string text, long left, long top, long size) {
    struct Corner {
        float x, y, z;
        std::array<std::uint8_t, 4> colour;
    };
    std::vector<std::array<Corner, 4>> quads(64 * text.size());  // no character takes as many
    const int count = stb_easy_font_print(0, 0, text.data(), nullptr, quads.data(),
                                          static_cast<int>(quads.size() * sizeof(quads[0])));
    quads.resize(static_cast<std::size_t>(count));
    for (const auto& quad : quads) {
        picture.fill(left + std::lrint(quad[0].x) * size, top + std::lrint(quad[0].y) * size,
                     left + std::lrint(quad[2].x) * size, top + std::lrint(quad[2].y) * size, {0, 0, 0});
    }
}

// Draws the box and its label.
void mark(Picture& picture, const Box& box, std::string label) {
    constexpr std::array<std::uint8_t, 3> GOLD{255, 215, 0};
    for (char& letter : label) {
        if (letter < ' ' || letter > '~') letter = '?';
    }
    const auto columns = static_cast<long>(picture.width);
    const long point = std::max(1L, columns / 288), line = std::max(2L, columns / 216);
    const long left = std::lrint(box.left), right = std::lrint(box.left + box.width) + 1;
    const long top = std::lrint(box.top), bottom = std::lrint(box.top + box.height) + 1;
    picture.fill(left, top, right, top + line, GOLD);
    picture.fill(left, bottom - line, right, bottom, GOLD);
    picture.fill(left, top, left + line, bottom, GOLD);
    picture.fill(right - line, top, right, bottom, GOLD);
    const long height = 12 * point, width = (stb_easy_font_width(label.data()) + 4) * point;
    const long above = std::max(top - height, 0L);
    picture.fill(left, above, left + width, above + height, GOLD);
    write_text(picture, label, left + 2 * point, above + 2 * point, point);
}

}  // namespace

int main(int count, char** values) {
    return run(count, values, {"recognize", "FACES EXPRESSIONS PICTURE OUT.png", 4, 4}, [](const Command& command) {
        FaceDetector detector(command.arguments[0], command.device);
        Classifier classifier(command.arguments[1], command.device);
        const Picture picture = Picture::read(command.arguments[2]);
        Picture marked = picture;
        for (const Box& box : detector.find(picture)) {
            const auto [label, probability, milliseconds] = classifier.classify(cut_face(picture, box));
            mark(marked, box, label + " " + std::to_string(std::lrint(100 * probability)) + "%");
            std::printf("face at %.0f, %.0f, %.0f, %.0f: %s (%.1f%%, %.2f ms)\n", box.left, box.top, box.width,
                        box.height, label.c_str(), 100 * probability, milliseconds);
        }
        marked.write(command.arguments[3]);
    });
}
