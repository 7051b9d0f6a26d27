#include "resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace {

// A filter: its weight at a distance from the center, and its reach, both in pixels of the smaller picture.
struct Filter {
    double reach;
    double (*weight)(double);
};

double box(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

double bilinear(double x) { return std::max(1 - std::abs(x), 0.0); }

// R. Keys, Cubic convolution interpolation for digital image processing (1981), with a = -1/2.
double bicubic(double x) {
    constexpr double a = -0.5;
    x = std::abs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

double sinc(double x) {
    constexpr double pi = 3.14159265358979323846;
    return x == 0 ? 1 : std::sin(pi * x) / (pi * x);
}

double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

Filter filter_of(const std::string& interpolation) {
    if (interpolation == "box") return {0.5, box};
    if (interpolation == "bilinear") return {1, bilinear};
    if (interpolation == "bicubic") return {2, bicubic};
    if (interpolation == "lanczos") return {3, lanczos};
    throw std::runtime_error("this program cannot resize by interpolation " + interpolation);
}

// Fractional bits of the weights: with 8 bits of a pixel and 2 for overshooting filters, a sum has 32 bits.
constexpr int BITS = 22;

// The source pixels of a new pixel: those from `first` on along an axis, with their weights.
struct Share {
    std::size_t first;
    std::vector<std::int32_t> weights;
};

std::vector<Share> nearest_shares(std::size_t length, std::size_t new_length) {
    const double scale = static_cast<double>(length) / static_cast<double>(new_length);
    std::vector<Share> found;
    double middle = scale / 2;
    while (found.size() < new_length) {
        found.push_back({std::min(static_cast<std::size_t>(middle), length - 1), {1 << BITS}});
        middle += scale;  // accumulates as in Pillow, so that ties between two pixels are resolved in the same way
    }
    return found;
}

std::vector<Share> shares(std::size_t length, std::size_t new_length, const std::string& interpolation) {
    if (interpolation == "nearest") return nearest_shares(length, new_length);
    const Filter filter = filter_of(interpolation);
    const double scale = static_cast<double>(length) / static_cast<double>(new_length);
    const double stretch = std::max(scale, 1.0), reach = filter.reach * stretch;
    std::vector<Share> found;
    for (std::size_t place = 0; place < new_length; ++place) {
        const double middle = (static_cast<double>(place) + 0.5) * scale;
        const auto first = static_cast<std::size_t>(std::max(middle - reach + 0.5, 0.0));
        const auto stop = std::min(static_cast<std::size_t>(middle + reach + 0.5), length);
        std::vector<double> weights;
        double total = 0;
        for (std::size_t pixel = first; pixel < stop; ++pixel) {
            weights.push_back(filter.weight((static_cast<double>(pixel) - middle + 0.5) * (1 / stretch)));
            total += weights.back();
        }
        found.push_back({first, {}});
        for (const double weight : weights) {
            found.back().weights.push_back(static_cast<std::int32_t>(std::round(weight / total * (1 << BITS))));
        }
    }
    return found;
}

// One channel of a new pixel, the weighted sum of source pixels that are `step` bytes apart.
std::uint8_t mixed(const std::uint8_t* pixels, std::size_t step, const Share& share) {
    std::int32_t sum = 1 << (BITS - 1);
    pixels += share.first * step;
    for (const std::int32_t weight : share.weights) {
        sum += *pixels * weight;
        pixels += step;
    }
    return static_cast<std::uint8_t>(std::clamp(sum >> BITS, 0, 255));
}

Picture across(const Picture& picture, std::size_t width, const std::string& interpolation) {
    const auto columns = shares(picture.width, width, interpolation);
    Picture result(picture.height, width, picture.channels);
    std::uint8_t* target = result.pixels.data();
    for (std::size_t row = 0; row < picture.height; ++row) {
        const std::uint8_t* line = picture.pixels.data() + row * picture.width * picture.channels;
        for (const Share& column : columns) {
            for (std::size_t channel = 0; channel < picture.channels; ++channel) {
                *target++ = mixed(line + channel, picture.channels, column);
            }
        }
    }
    return result;
}

Picture down(const Picture& picture, std::size_t height, const std::string& interpolation) {
    Picture result(height, picture.width, picture.channels);
    const std::size_t in_a_row = picture.width * picture.channels;
    std::uint8_t* target = result.pixels.data();
    for (const Share& row : shares(picture.height, height, interpolation)) {
        for (std::size_t place = 0; place < in_a_row; ++place) {
            *target++ = mixed(picture.pixels.data() + place, in_a_row, row);
        }
    }
    return result;
}

}  // namespace

Picture resized(const Picture& picture, std::size_t height, std::size_t width, const std::string& interpolation) {
    if (height == 0 || width == 0) {
        throw std::runtime_error("the picture is too narrow for the size that the model wants");
    }
    // Each pass rounds to whole pixel values, so the order of the passes matters. Since version 13, Pillow resizes
    // vertically first if the picture loses more than twice as many rows as columns.
    const double lost_rows = static_cast<double>(picture.height) - static_cast<double>(height);
    const double lost_columns = static_cast<double>(picture.width) - static_cast<double>(width);
    if (lost_rows > 0 && lost_rows > 2 * lost_columns) {
        return across(down(picture, height, interpolation), width, interpolation);
    }
    return down(across(picture, width, interpolation), height, interpolation);
}
