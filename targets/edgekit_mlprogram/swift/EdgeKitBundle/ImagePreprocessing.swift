import CoreGraphics
import Foundation

/// How a picture becomes the model's input, as the manifest declares: `(pixel * scale - mean) / std`.
public struct ImagePreprocessing: Decodable, Sendable {
    public enum Color: String, Decodable, Sendable {
        case rgb = "RGB"
        case bgr = "BGR"
        case gray = "GRAY"
    }

    public enum Resize: String, Decodable, Sendable {
        case none, stretch, crop, pad
    }

    public enum PictureError: Error {
        case otherSize(expected: [Int])
        case cannotDraw
    }

    public let scale: Double
    /// Numbers a channel in the model's order, or a single one for all.
    public let mean: [Double]
    public let std: [Double]
    public let color: Color
    /// Height and width.
    public let size: [Int]
    public let resize: Resize
    public let cropFraction: Double
    /// Pixel value of the border, from 0 to 255.
    public let padValue: Double
    public let padAlign: String
    /// The input's dimensions, such as `NCHW`.
    public let layout: String

    /// The model's input for a picture, row by row in the input's layout.
    ///
    /// Core Graphics scales the picture; its filter differs a little from the one that EdgeKit calibrates with.
    public func input(for picture: CGImage) throws -> [Double] {
        let (height, width) = (size[0], size[1])
        let pixels = try drawn(picture, height: height, width: width)
        let strides = strides()
        var values = [Double](repeating: 0, count: height * width * channels)
        for row in 0..<height {
            for column in 0..<width {
                for channel in 0..<channels {
                    let stored = color == .bgr ? 2 - channel : channel
                    let pixel = Double(pixels[(row * width + column) * (channels == 1 ? 1 : 4) + stored])
                    let value = (pixel * scale - mean[channel % mean.count]) / std[channel % std.count]
                    values[row * strides.row + column * strides.column + channel * strides.channel] = value
                }
            }
        }
        return values
    }

    /// How many numbers a pixel has in the model's input.
    var channels: Int { color == .gray ? 1 : 3 }

    /// How far apart neighbours are in the model's input, along each of its axes.
    func strides() -> (row: Int, column: Int, channel: Int) {
        let sizes: [Character: Int] = ["N": 1, "C": channels, "H": size[0], "W": size[1]]
        var strides: [Character: Int] = [:]
        var count = 1
        for axis in layout.reversed() {
            strides[axis] = count
            count *= sizes[axis, default: 1]
        }
        return (strides["H", default: 0], strides["W", default: 0], strides["C", default: 0])
    }

    /// Where a picture of another size is drawn on the input's canvas; Core Graphics counts from the lower left corner.
    func frame(pictureWidth: Double, pictureHeight: Double) throws -> CGRect {
        let (height, width) = (Double(size[0]), Double(size[1]))
        let (horizontal, vertical) = (width / pictureWidth, height / pictureHeight)
        switch resize {
        case .none where pictureWidth != width || pictureHeight != height:
            throw PictureError.otherSize(expected: size)
        case .none, .stretch:
            return CGRect(x: 0, y: 0, width: width, height: height)
        case .crop, .pad:
            let factor = resize == .crop ? max(horizontal, vertical) / cropFraction : min(horizontal, vertical)
            let (newWidth, newHeight) = (pictureWidth * factor, pictureHeight * factor)
            let centered = resize == .crop || padAlign == "center"
            return CGRect(
                x: centered ? (width - newWidth) / 2 : 0,
                y: centered ? (height - newHeight) / 2 : height - newHeight,
                width: newWidth,
                height: newHeight
            )
        }
    }

    /// Where something on the input's canvas lies in the picture, whose size is given; null where it lies outside.
    func inPicture(_ corners: Corners, pictureWidth: Double, pictureHeight: Double) throws -> CGRect {
        let frame = try frame(pictureWidth: pictureWidth, pictureHeight: pictureHeight)
        let (horizontal, vertical) = (pictureWidth / frame.width, pictureHeight / frame.height)
        let top = Double(size[0]) - frame.maxY
        let left = max((corners.left - frame.minX) * horizontal, 0)
        let upper = max((corners.top - top) * vertical, 0)
        let right = min((corners.right - frame.minX) * horizontal, pictureWidth)
        let lower = min((corners.bottom - top) * vertical, pictureHeight)
        guard right > left, lower > upper else { return .null }
        return CGRect(x: left, y: upper, width: right - left, height: lower - upper)
    }

    /// 8-bit pixels of the picture on the input's canvas: one channel, or four of which the last is unused.
    private func drawn(_ picture: CGImage, height: Int, width: Int) throws -> [UInt8] {
        let gray = color == .gray
        let channels = gray ? 1 : 4
        var pixels = [UInt8](repeating: 0, count: height * width * channels)
        let target = try frame(pictureWidth: Double(picture.width), pictureHeight: Double(picture.height))
        let space = gray ? CGColorSpaceCreateDeviceGray() : CGColorSpaceCreateDeviceRGB()
        let alpha: CGImageAlphaInfo = gray ? .none : .noneSkipLast
        let border = padValue / 255
        let done = pixels.withUnsafeMutableBytes { bytes -> Bool in
            guard
                let context = CGContext(
                    data: bytes.baseAddress, width: width, height: height, bitsPerComponent: 8,
                    bytesPerRow: width * channels, space: space, bitmapInfo: alpha.rawValue),
                let background = CGColor(
                    colorSpace: space, components: gray ? [border, 1] : [border, border, border, 1])
            else {
                return false
            }
            context.setFillColor(background)
            context.fill(CGRect(x: 0, y: 0, width: width, height: height))
            context.interpolationQuality = .high
            context.draw(picture, in: target)
            return true
        }
        guard done else {
            throw PictureError.cannotDraw
        }
        return pixels
    }
}
