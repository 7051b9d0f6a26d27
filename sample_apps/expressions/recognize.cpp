// Finds faces and recognizes their expressions: recognize [--device NAME] FACES EXPRESSIONS PICTURE OUT.png
// FACES and EXPRESSIONS are OpenVINO bundles.
// Built by ../intel/cpp, which has the code that reads bundles and pictures.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stb_easy_font.h>
#include <string>
#include <vector>

#include "bundle.hpp"
#include "classifier.hpp"
#include "command.hpp"
#include "picture.hpp"

namespace {

constexpr float LEAST_SCORE = 0.7F;
constexpr double MARGIN = 0.1;  // on each side of a face, as a share of its longer side

// A face in the picture's pixels.
struct Box {
    double left;
    double top;
    double width;
    double height;
};

// The bundle of YuNet.
class FaceDetector {
public:
    // Throws as Bundle does.
    FaceDetector(const std::string& folder, const std::string& device) : bundle_(folder, device) {}

    // The faces in an RGB picture, the one with the highest score first.
    std::vector<Box> find(const Picture& picture) {
        const auto& input = bundle_.preprocessing();
        const double factor = std::min(static_cast<double>(input.width()) / static_cast<double>(picture.width),
                                       static_cast<double>(input.height()) / static_cast<double>(picture.height));
        bundle_.run(picture);
        const ov::Tensor found = bundle_.output("detections");  // left, top, right, bottom, score, class, …
        const std::size_t columns = found.get_shape().back();
        std::vector<Box> faces;
        for (const float* row = found.data<const float>(); row != found.data<const float>() + found.get_size();
             row += columns) {
            if (!(row[4] >= LEAST_SCORE)) continue;
            std::array<double, 4> corners{};
            std::transform(row, row + 4, corners.begin(), [factor](float side) { return double{side} / factor; });
            faces.push_back({corners[0], corners[1], corners[2] - corners[0], corners[3] - corners[1]});
        }
        return faces;
    }

private:
    Bundle bundle_;
};

// A square around the face; the part outside of the picture is black.
Picture cut_face(const Picture& picture, const Box& box) {
    const double side = std::max(box.width, box.height) * (1 + 2 * MARGIN);
    const double left = box.left + (box.width - side) / 2, top = box.top + (box.height - side) / 2;
    const long column = std::lrint(left), row = std::lrint(top);
    const auto width = static_cast<std::size_t>(std::lrint(left + side) - column);
    const auto height = static_cast<std::size_t>(std::lrint(top + side) - row);
    return picture.placed(height, width, -row, -column, 0);
}

// Writes a line of text; (left, top) is its upper left corner. A point of the font is a square of `size` pixels; a line
// is about eight points high. The font contains only ASCII.
void write_text(Picture& picture, std::string text, long left, long top, long size) {
    struct Corner {
        float x, y, z;
        std::array<std::uint8_t, 4> colour;
    };
    std::vector<std::array<Corner, 4>> quads(64 * text.size());  // every character has fewer than 64 quads
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
            const Answer answer = classifier.classify(cut_face(picture, box));
            mark(marked, box, answer.label + " " + answer.percent(0));
            std::printf("face at %.0f, %.0f, %.0f, %.0f: %s (%s%.2f ms)\n", box.left, box.top, box.width, box.height,
                        answer.label.c_str(), answer.percent(1, ", ").c_str(), answer.milliseconds);
        }
        marked.write(command.arguments[3]);
    });
}
