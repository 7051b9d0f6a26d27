// SHA-256 (FIPS 180-4) of a file.
#pragma once

#include <string>

// Returns the SHA-256 as 64 hexadecimal digits. Throws std::runtime_error if the file cannot be read.
std::string sha256_of_file(const std::string& file);
