// Enlarges a picture with an OpenVINO bundle: upscale [--device NAME] BUNDLE PICTURE OUT.png
// Built by ../intel/cpp, which has the code that reads bundles and pictures.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "bundle.hpp"
#include "command.hpp"
#include "picture.hpp"

namespace {

// A pixel depends on pixels at most this far away: 2 + 1 + 1 by the convolutions, 1 by the one after enlarging.
constexpr std::size_t REACH = 5;

// Where a tile begins along one axis, and which of its pixels are kept, all counted from the picture's border.
struct Span {
    std::size_t start;
    std::size_t first;
    std::size_t stop;
};

// Tiles along one axis that together give the network's result for the whole picture. The outermost tiles end at the
// picture's borders, because the network pads with zeros. `length` is at least `tile`; `tile` is more than twice REACH.
std::vector<Span> spans(std::size_t length, std::size_t tile) {
    std::vector<Span> found;
    for (std::size_t first = 0; first < length; first = found.back().stop) {
        const std::size_t start = std::min(first > REACH ? first - REACH : 0, length - tile);
        found.push_back({start, first, start + tile == length ? length : start + tile - REACH});
    }
    return found;
}

// Part of a picture; outside of the picture, its last column and row are repeated.
Picture part(const Picture& picture, std::size_t top, std::size_t left, std::size_t height, std::size_t width) {
    Picture result(height, width, picture.channels);
    for (std::size_t row = 0; row < height; ++row) {
        for (std::size_t column = 0; column < width; ++column) {
            const std::size_t y = std::min(top + row, picture.height - 1), x = std::min(left + column, picture.width - 1);
            std::copy_n(picture.pixels.data() + (y * picture.width + x) * picture.channels, picture.channels,
                        result.pixels.data() + (row * width + column) * picture.channels);
        }
    }
    return result;
}

class Upscaler {
public:
    // Throws as Bundle does, and if the model does not enlarge pictures.
    Upscaler(const std::string& folder, const std::string& device)
        : bundle_(folder, device), height_(bundle_.preprocessing().height()), width_(bundle_.preprocessing().width()) {
        const ov::Shape shape = bundle_.output().get_shape();
        factor_ = shape.back() / width_;
        if (bundle_.preprocessing().channels() != 3 || shape != ov::Shape{1, 3, height_ * factor_, width_ * factor_} ||
            factor_ < 2 || std::min(height_, width_) <= 2 * REACH) {
            throw std::runtime_error(folder + " does not enlarge pictures");
        }
    }

    Picture upscale(const Picture& picture) {
        Picture enlarged(picture.height * factor_, picture.width * factor_, picture.channels);
        for (const Span& y : spans(std::max(picture.height, height_), height_)) {
            for (const Span& x : spans(std::max(picture.width, width_), width_)) {
                bundle_.run(part(picture, y.start, x.start, height_, width_));
                keep(y, x, enlarged);
            }
        }
        return enlarged;
    }

private:
    // Writes the kept part of a tile; the inverse of the preprocessing converts the network's values to pixels.
    void keep(const Span& y, const Span& x, Picture& enlarged) {
        const auto& [scale, mean, deviation] = bundle_.preprocessing().normalization();
        const ov::Tensor output = bundle_.output();
        const auto* values = output.data<const float>();
        std::uint8_t* pixels = enlarged.pixels.data();
        const std::size_t bottom = std::min(y.stop * factor_, enlarged.height);
        const std::size_t right = std::min(x.stop * factor_, enlarged.width);
        for (std::size_t channel = 0; channel < enlarged.channels; ++channel) {
            for (std::size_t row = y.first * factor_; row < bottom; ++row) {
                const std::size_t line = channel * height_ * factor_ + row - y.start * factor_;
                for (std::size_t column = x.first * factor_; column < right; ++column) {
                    const double value = values[line * width_ * factor_ + column - x.start * factor_];
                    const double pixel = std::nearbyint((value * deviation[channel] + mean[channel]) / scale);
                    pixels[(row * enlarged.width + column) * enlarged.channels + channel] =
                        static_cast<std::uint8_t>(std::clamp(pixel, 0.0, 255.0));
                }
            }
        }
    }

    Bundle bundle_;
    std::size_t height_;
    std::size_t width_;
    std::size_t factor_ = 0;
};

}  // namespace

int main(int count, char** values) {
    return run(count, values, {"upscale", "BUNDLE PICTURE OUT.png", 3, 3}, [](const Command& command) {
        Upscaler upscaler(command.arguments[0], command.device);
        const Picture picture = Picture::read(command.arguments[1]);
        const Picture enlarged = upscaler.upscale(picture);
        enlarged.write(command.arguments[2]);
        std::printf("%zu × %zu became %zu × %zu pixels\n", picture.width, picture.height, enlarged.width,
                    enlarged.height);
    });
}
