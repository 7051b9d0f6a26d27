#include "sha256.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace {

using Words = std::array<std::uint32_t, 8>;

// The first 32 bits of the fractional parts of the square or cube roots of the first primes (FIPS 180-4, 4.2.2 and
// 5.3.3); a long double has more than the 40 bits that are needed.
template <std::size_t Count>
std::array<std::uint32_t, Count> fractions_of_roots(bool cube) {
    std::array<std::uint32_t, Count> fractions{};
    std::size_t found = 0;
    for (unsigned number = 2; found < Count; ++number) {
        bool is_prime = true;
        for (unsigned divisor = 2; divisor * divisor <= number; ++divisor) {
            is_prime = is_prime && number % divisor != 0;
        }
        if (is_prime) {
            const long double wide = number;
            const long double root = cube ? std::cbrt(wide) : std::sqrt(wide);
            fractions[found++] = static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0L);
        }
    }
    return fractions;
}

std::uint32_t rotated(std::uint32_t word, unsigned bits) { return word >> bits | word << (32 - bits); }

void take_block(Words& state, const unsigned char* block) {
    static const auto constants = fractions_of_roots<64>(true);
    std::array<std::uint32_t, 64> schedule{};
    for (std::size_t i = 0; i < 16; ++i) {
        const unsigned char* bytes = block + 4 * i;
        schedule[i] = static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
                      static_cast<std::uint32_t>(bytes[2]) << 8 | bytes[3];
    }
    for (std::size_t i = 16; i < 64; ++i) {
        const std::uint32_t near = schedule[i - 15], last = schedule[i - 2];
        schedule[i] = schedule[i - 16] + (rotated(near, 7) ^ rotated(near, 18) ^ near >> 3) + schedule[i - 7] +
                      (rotated(last, 17) ^ rotated(last, 19) ^ last >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t i = 0; i < 64; ++i) {
        const std::uint32_t first = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) +
                                    constants[i] + schedule[i];
        const std::uint32_t second = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const Words added{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state[i] += added[i];
}

}  // namespace

std::string sha256_of_file(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
        throw std::runtime_error(file + " cannot be read");
    }
    Words state = fractions_of_roots<8>(false);
    std::uint64_t bytes = 0;
    std::vector<char> buffer(1 << 16);
    std::vector<unsigned char> rest;
    while (stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), stream.gcount() > 0) {
        const auto count = static_cast<std::size_t>(stream.gcount());
        bytes += count;
        rest.insert(rest.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count));
        const std::size_t whole = rest.size() / 64 * 64;
        for (std::size_t place = 0; place < whole; place += 64) take_block(state, rest.data() + place);
        rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(whole));
    }
    rest.push_back(0x80);
    while (rest.size() % 64 != 56) rest.push_back(0);
    for (int shift = 56; shift >= 0; shift -= 8) rest.push_back(static_cast<unsigned char>(bytes * 8 >> shift));
    for (std::size_t place = 0; place < rest.size(); place += 64) take_block(state, rest.data() + place);
    std::string digits;
    for (const std::uint32_t word : state) {
        for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 15];
    }
    return digits;
}
