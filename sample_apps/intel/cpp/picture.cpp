#include "picture.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

#define STB_IMAGE_IMPLEMENTATION
#include <stb_image.h>

Picture Picture::read(const std::string& file, std::size_t channels) {
    int width = 0;
    int height = 0;
    const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> data(
        stbi_load(file.c_str(), &width, &height, nullptr, static_cast<int>(channels)), stbi_image_free);
    if (!data) {
        throw std::runtime_error(file + ": " + stbi_failure_reason());
    }
    Picture picture;
    picture.height = static_cast<std::size_t>(height);
    picture.width = static_cast<std::size_t>(width);
    picture.channels = channels;
    picture.pixels.assign(data.get(), data.get() + picture.height * picture.width * channels);
    return picture;
}

Picture Picture::placed(std::size_t new_height, std::size_t new_width, std::ptrdiff_t top, std::ptrdiff_t left,
                        std::uint8_t border) const {
    Picture canvas;
    canvas.height = new_height;
    canvas.width = new_width;
    canvas.channels = channels;
    canvas.pixels.assign(new_height * new_width * channels, border);
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
