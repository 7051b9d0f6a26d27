import CoreGraphics
import CoreML
import EdgeKitBundle

/// Enlarges pictures with the bundle `espcn-ios18`, tile by tile.
public struct Upscaler {
    /// A pixel depends on pixels at most this far away.
    private static let reach = 5

    /// Where a tile begins along one axis, and which of its pixels are kept, all counted from the picture's border.
    private typealias Span = (start: Int, kept: Range<Int>)

    public enum UpscalerError: Error {
        /// The bundle does not declare preprocessing for pictures.
        case noPreprocessing
        /// The picture is smaller than a tile.
        case tooSmall(tile: [Int])
        case cannotDraw
    }

    private let manifest: Manifest
    private let model: MLModel
    private let preprocessing: ImagePreprocessing

    public init(bundle: ModelBundle) async throws {
        guard let declared = bundle.manifest.imagePreprocessing else {
            throw UpscalerError.noPreprocessing
        }
        manifest = bundle.manifest
        preprocessing = declared
        model = try await bundle.loadModel()
    }

    /// Enlarges the picture tile by tile; the result is that of the network for the whole picture.
    public func enlarge(_ picture: CGImage) throws -> CGImage {
        let (height, width) = (preprocessing.size[0], preprocessing.size[1])
        guard picture.height >= height, picture.width >= width else {
            throw UpscalerError.tooSmall(tile: preprocessing.size)
        }
        let input = manifest.inputs[0].nativeName
        let output = manifest.outputs[0]
        let factor = (output.nativeShape.last.flatMap { $0 } ?? width) / width
        let row = 4 * picture.width * factor
        var pixels = [UInt8](repeating: .max, count: row * picture.height * factor)
        for y in Self.spans(picture.height, tile: height) {
            for x in Self.spans(picture.width, tile: width) {
                let frame = CGRect(x: x.start, y: y.start, width: width, height: height)
                guard let tile = picture.cropping(to: frame) else {
                    throw UpscalerError.cannotDraw
                }
                let array = try model.inputArray(preprocessing.input(for: tile), named: input)
                let values = try model.outputs(for: [input: array]).outputValues(named: output.nativeName)
                for line in y.kept.lowerBound * factor..<y.kept.upperBound * factor {
                    for column in x.kept.lowerBound * factor..<x.kept.upperBound * factor {
                        let place = (line - y.start * factor) * width * factor + column - x.start * factor
                        for channel in 0..<3 {
                            let value = values[channel * width * height * factor * factor + place]
                            pixels[line * row + 4 * column + channel] = pixel(value, channel: channel)
                        }
                    }
                }
            }
        }
        return try image(of: &pixels, width: picture.width * factor, height: picture.height * factor)
    }

    private static func spans(_ length: Int, tile: Int) -> [Span] {
        var found: [Span] = []
        var first = 0
        while first < length {
            let start = min(max(first - reach, 0), length - tile)
            let stop = start + tile == length ? length : start + tile - reach
            found.append((start, first..<stop))
            first = stop
        }
        return found
    }

    /// Converts a value of the network to a pixel's channel, by the inverse of the preprocessing.
    private func pixel(_ value: Double, channel: Int) -> UInt8 {
        let (mean, std) = (preprocessing.mean, preprocessing.std)
        let back = (value * std[channel % std.count] + mean[channel % mean.count]) / preprocessing.scale
        return UInt8(min(max(back.rounded(), 0), 255))
    }

    private func image(of pixels: inout [UInt8], width: Int, height: Int) throws -> CGImage {
        let made = pixels.withUnsafeMutableBytes { bytes in
            CGContext(
                data: bytes.baseAddress, width: width, height: height, bitsPerComponent: 8, bytesPerRow: 4 * width,
                space: CGColorSpaceCreateDeviceRGB(), bitmapInfo: CGImageAlphaInfo.noneSkipLast.rawValue)?.makeImage()
        }
        guard let made else {
            throw UpscalerError.cannotDraw
        }
        return made
    }
}
