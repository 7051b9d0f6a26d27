#include "orientation.hpp"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <vector>

namespace {

constexpr int UPRIGHT = 1;

using Bytes = std::vector<unsigned char>;

// A number of `count` bytes, big-endian, or little-endian if `least_first`. Bytes beyond the end are 0.
std::uint32_t number(const Bytes& bytes, std::size_t place, std::size_t count, bool least_first = false) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = place + (least_first ? count - 1 - i : i);
        value = value << 8 | (at < bytes.size() ? bytes[at] : 0U);
    }
    return value;
}

Bytes taken(std::istream& stream, std::size_t count) {
    Bytes bytes(count);
    stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(count));
    bytes.resize(static_cast<std::size_t>(stream.gcount()));
    return bytes;
}

// The tag Orientation in Exif data, which has the format of a TIFF file: in an entry of 12 bytes, the first two are the
// tag's number, and the value starts at the ninth.
int orientation_of_exif(const Bytes& bytes) {
    constexpr std::uint32_t ORIENTATION = 0x0112;
    const bool least_first = number(bytes, 0, 2) == 0x4949;  // "II"
    const std::size_t folder = number(bytes, 4, 4, least_first);
    const std::size_t entries = number(bytes, folder, 2, least_first);
    for (std::size_t entry = 0; entry < entries; ++entry) {
        const std::size_t place = folder + 2 + 12 * entry;
        if (number(bytes, place, 2, least_first) == ORIENTATION) {
            const auto value = number(bytes, place + 8, 2, least_first);
            return value >= 1 && value <= 8 ? static_cast<int>(value) : UPRIGHT;
        }
    }
    return UPRIGHT;
}

// A JPEG file is a sequence of segments, each after a marker of two bytes; Exif data is in a segment marked APP1.
int orientation_of_jpeg(std::istream& stream) {
    constexpr std::uint32_t APP1 = 0xFFE1, START_OF_SCAN = 0xFFDA;
    const Bytes name{'E', 'x', 'i', 'f', 0, 0};
    for (Bytes head = taken(stream, 4); head.size() == 4; head = taken(stream, 4)) {
        const std::uint32_t marker = number(head, 0, 2), length = number(head, 2, 2);
        if (marker >> 8 != 0xFF || marker == START_OF_SCAN || length < 2) break;
        const Bytes body = taken(stream, length - 2);
        if (marker == APP1 && body.size() > name.size() && Bytes(body.begin(), body.begin() + 6) == name) {
            return orientation_of_exif(Bytes(body.begin() + 6, body.end()));
        }
    }
    return UPRIGHT;
}

// A PNG file is a sequence of chunks: length, name, data, checksum; Exif data is in a chunk named eXIf.
int orientation_of_png(std::istream& stream) {
    constexpr std::uint32_t EXIF = 0x65584966, END = 0x49454E44;  // "eXIf" and "IEND"
    for (Bytes head = taken(stream, 8); head.size() == 8; head = taken(stream, 8)) {
        const std::uint32_t length = number(head, 0, 4), name = number(head, 4, 4);
        if (name == END) break;
        if (name == EXIF) return orientation_of_exif(taken(stream, length));
        stream.seekg(static_cast<std::streamoff>(length) + 4, std::ios::cur);
    }
    return UPRIGHT;
}

}  // namespace

int orientation_of_file(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    const Bytes start = taken(stream, 2);
    if (number(start, 0, 2) == 0xFFD8) return orientation_of_jpeg(stream);
    if (number(start, 0, 2) == 0x8950) {
        stream.seekg(8);
        return orientation_of_png(stream);
    }
    return UPRIGHT;
}
