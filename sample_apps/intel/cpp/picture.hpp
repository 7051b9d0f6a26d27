// Pictures as arrays of 8-bit pixels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct Picture {
    std::size_t height = 0;
    std::size_t width = 0;
    std::size_t channels = 0;
    std::vector<std::uint8_t> pixels;  // row by row, channels together

    // A picture of zeros.
    Picture(std::size_t height, std::size_t width, std::size_t channels);

    // Reads a PNG, JPEG, BMP or PGM file as RGB, upright as its Exif data tells. Throws std::runtime_error.
    static Picture read(const std::string& file);

    // Writes a PNG file. Throws std::runtime_error.
    void write(const std::string& file) const;

    // An RGB picture's luma by ITU-R BT.601, rounded as Pillow does: one channel.
    Picture grey() const;

    // The same turned and mirrored as a value of Exif's tag Orientation (1 to 8) asks for.
    Picture upright(int orientation) const;

    // The same on a canvas of another size, with its left upper corner at (left, top); what lies outside is cut off,
    // what is free has the value `border`.
    Picture placed(std::size_t new_height, std::size_t new_width, std::ptrdiff_t top, std::ptrdiff_t left,
                   std::uint8_t border) const;

    // Gives an RGB picture's pixels from (left, top) to before (right, bottom) a colour; the rectangle may lie partly
    // outside.
    void fill(std::ptrdiff_t left, std::ptrdiff_t top, std::ptrdiff_t right, std::ptrdiff_t bottom,
              const std::array<std::uint8_t, 3>& colour);
};
