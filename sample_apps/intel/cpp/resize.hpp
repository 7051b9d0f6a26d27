// Resizes pictures; the result is bit-identical to that of Pillow 13.
#pragma once

#include <cstddef>
#include <string>

#include "picture.hpp"

// The picture with `height` × `width` pixels, by Pillow's filter of this name: nearest, box, bilinear, bicubic or lanczos.
// Throws std::runtime_error for any other filter, or if a side would have no pixels.
Picture resized(const Picture& picture, std::size_t height, std::size_t width, const std::string& interpolation);
