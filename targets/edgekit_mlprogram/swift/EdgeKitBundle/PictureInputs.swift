import CoreML
import CoreVideo
import Foundation

extension ImagePreprocessing {
    /// The picture that becomes `values` by this preprocessing, as Core ML takes it.
    ///
    /// - Parameter values: The model's input, row by row in the input's layout.
    func picture(of values: [Double], named name: String) throws -> MLFeatureValue {
        let (height, width) = (size[0], size[1])
        guard values.count == height * width * channels else {
            throw ValueError.otherSize(name, expected: height * width * channels, found: values.count)
        }
        let strides = strides()
        let stored = color == .gray ? 1 : 4
        return MLFeatureValue(
            pixelBuffer: try pixelBuffer(named: name) { row, column, byte in
                // Core Video's bytes are blue, green, red and alpha.
                guard stored == 1 || byte < 3 else { return .max }
                let channel = stored == 1 ? 0 : color == .bgr ? byte : 2 - byte
                let value = values[row * strides.row + column * strides.column + channel * strides.channel]
                let pixel = (value * std[channel % std.count] + mean[channel % mean.count]) / scale
                return UInt8(min(max(pixel.rounded(), 0), 255))
            })
    }

    /// A pixel buffer of the input's size: one byte a pixel for gray, otherwise four.
    private func pixelBuffer(named name: String, _ byte: (Int, Int, Int) -> UInt8) throws -> CVPixelBuffer {
        let format = color == .gray ? kCVPixelFormatType_OneComponent8 : kCVPixelFormatType_32BGRA
        let bytesPerPixel = color == .gray ? 1 : 4
        var made: CVPixelBuffer?
        let status = CVPixelBufferCreate(kCFAllocatorDefault, size[1], size[0], format, nil, &made)
        guard status == kCVReturnSuccess, let buffer = made else {
            throw ValueError.noPixelBuffer(name)
        }
        CVPixelBufferLockBaseAddress(buffer, [])
        defer { CVPixelBufferUnlockBaseAddress(buffer, []) }
        guard let base = CVPixelBufferGetBaseAddress(buffer) else {
            throw ValueError.noPixelBuffer(name)
        }
        let bytesPerRow = CVPixelBufferGetBytesPerRow(buffer)
        for row in 0..<size[0] {
            for place in 0..<(size[1] * bytesPerPixel) {
                let value = byte(row, place / bytesPerPixel, place % bytesPerPixel)
                base.storeBytes(of: value, toByteOffset: row * bytesPerRow + place, as: UInt8.self)
            }
        }
        return buffer
    }
}
