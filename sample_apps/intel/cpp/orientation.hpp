// The orientation of the camera, as stored in a picture.
#pragma once

#include <string>

// The tag Orientation (1 to 8) of the Exif data in a JPEG or PNG file (CIPA DC-008, 4.6.4); 1, upright, if none.
int orientation_of_file(const std::string& file);
