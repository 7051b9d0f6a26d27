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

    // Reads a PNG, JPEG, BMP or PGM file as RGB, turned upright according to its Exif data. Throws std::runtime_error.
    static Picture read(const std::string& file);

    // Writes a PNG file. Throws std::runtime_error.
    void write(const std::string& file) const;

    // An RGB picture's luma (ITU-R BT.601, rounded as in Pillow): one channel.
    Picture grey() const;

    // The picture, turned and mirrored upright for a value of Exif's tag Orientation (1 to 8).
    Picture upright(int orientation) const;

    // The picture on a canvas of another size, with its upper left corner at (left, top). Parts outside of the canvas
    // are cut off, and the free part of the canvas has the value `border`.
    Picture placed(std::size_t new_height, std::size_t new_width, std::ptrdiff_t top, std::ptrdiff_t left,
                   std::uint8_t border) const;

    // Fills a rectangle of an RGB picture, from (left, top) up to but not including (right, bottom), with a color; the
    // rectangle may be partly outside of the picture.
    void fill(std::ptrdiff_t left, std::ptrdiff_t top, std::ptrdiff_t right, std::ptrdiff_t bottom,
              const std::array<std::uint8_t, 3>& colour);
};
