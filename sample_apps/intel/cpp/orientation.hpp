// How a camera was held, as its pictures tell.
#pragma once

#include <string>

// The tag Orientation (1 to 8) of the Exif data in a JPEG or PNG file (CIPA DC-008, 4.6.4); 1, upright, where there is none.
int orientation_of_file(const std::string& file);
