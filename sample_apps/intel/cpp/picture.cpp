#include "picture.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#define STB_IMAGE_IMPLEMENTATION
#include <stb_image.h>
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb_image_write.h>

#include "orientation.hpp"

namespace {

constexpr int RGB = 3;

}  // namespace

Picture::Picture(std::size_t height, std::size_t width, std::size_t channels)
    : height(height), width(width), channels(channels), pixels(height * width * channels) {}

Picture Picture::read(const std::string& file) {
    int width = 0;
    int height = 0;
    const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> data(
        stbi_load(file.c_str(), &width, &height, nullptr, RGB), stbi_image_free);
    if (!data) {
        throw std::runtime_error(file + ": " + stbi_failure_reason());
    }
    Picture picture(static_cast<std::size_t>(height), static_cast<std::size_t>(width), RGB);
    std::copy_n(data.get(), picture.pixels.size(), picture.pixels.begin());
    return picture.upright(orientation_of_file(file));
}

void Picture::write(const std::string& file) const {
    const auto in_a_row = static_cast<int>(width * channels);
    if (stbi_write_png(file.c_str(), static_cast<int>(width), static_cast<int>(height), static_cast<int>(channels),
                       pixels.data(), in_a_row) == 0) {
        throw std::runtime_error(file + " cannot be written");
    }
}

Picture Picture::grey() const {
    Picture result(height, width, 1);
    for (std::size_t place = 0; place < result.pixels.size(); ++place) {
        const std::uint8_t* pixel = pixels.data() + place * channels;
        // The weights are 0.299, 0.587 and 0.114 times 2^16.
        result.pixels[place] = static_cast<std::uint8_t>(
            (19595U * pixel[0] + 38470U * pixel[1] + 7471U * pixel[2] + 0x8000U) >> 16);
    }
    return result;
}

Picture Picture::upright(int orientation) const {
    const bool is_turned = orientation >= 5;  // rows have become columns
    const bool is_upside_down = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const bool is_mirrored = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    Picture result(is_turned ? width : height, is_turned ? height : width, channels);
    for (std::size_t row = 0; row < result.height; ++row) {
        for (std::size_t column = 0; column < result.width; ++column) {
            const std::size_t y = is_turned ? column : row, x = is_turned ? row : column;
            const std::size_t source = (is_upside_down ? height - 1 - y : y) * width + (is_mirrored ? width - 1 - x : x);
            std::copy_n(pixels.data() + source * channels, channels,
                        result.pixels.data() + (row * result.width + column) * channels);
        }
    }
    return result;
}

Picture Picture::placed(std::size_t new_height, std::size_t new_width, std::ptrdiff_t top, std::ptrdiff_t left,
                        std::uint8_t border) const {
    Picture canvas(new_height, new_width, channels);
    std::fill(canvas.pixels.begin(), canvas.pixels.end(), border);
    const auto first_column = std::max<std::ptrdiff_t>(0, left);
    const auto last_column =
        std::min(static_cast<std::ptrdiff_t>(new_width), left + static_cast<std::ptrdiff_t>(width));
    for (std::size_t row = 0; row < height; ++row) {
        const auto new_row = static_cast<std::ptrdiff_t>(row) + top;
        if (new_row < 0 || new_row >= static_cast<std::ptrdiff_t>(new_height) || first_column >= last_column) {
            continue;
        }
        const auto* source = pixels.data() + (row * width + static_cast<std::size_t>(first_column - left)) * channels;
        auto* target =
            canvas.pixels.data() + (static_cast<std::size_t>(new_row) * new_width + first_column) * channels;
        std::copy_n(source, static_cast<std::size_t>(last_column - first_column) * channels, target);
    }
    return canvas;
}

void Picture::fill(std::ptrdiff_t left, std::ptrdiff_t top, std::ptrdiff_t right, std::ptrdiff_t bottom,
                   const std::array<std::uint8_t, 3>& colour) {
    const auto within = [](std::ptrdiff_t place, std::size_t length) {
        return std::clamp<std::ptrdiff_t>(place, 0, static_cast<std::ptrdiff_t>(length));
    };
    for (auto row = within(top, height); row < within(bottom, height); ++row) {
        for (auto column = within(left, width); column < within(right, width); ++column) {
            const auto place = (static_cast<std::size_t>(row) * width + static_cast<std::size_t>(column)) * channels;
            std::copy(colour.begin(), colour.end(), pixels.begin() + static_cast<std::ptrdiff_t>(place));
        }
    }
}
