// Pictures as arrays of 8-bit pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct Picture {
    std::size_t height = 0;
    std::size_t width = 0;
    std::size_t channels = 0;
    std::vector<std::uint8_t> pixels;  // row by row, channels together

    // Reads a PNG, JPEG, BMP or PGM file with 1 (grey) or 3 (RGB) channels. Throws std::runtime_error.
    static Picture read(const std::string& file, std::size_t channels);

    // The same on a canvas of another size, with its left upper corner at (left, top); what lies outside is cut off,
    // what is free has the value `border`.
    Picture placed(std::size_t new_height, std::size_t new_width, std::ptrdiff_t top, std::ptrdiff_t left,
                   std::uint8_t border) const;
};
