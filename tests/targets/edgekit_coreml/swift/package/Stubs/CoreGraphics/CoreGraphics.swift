// As much of Core Graphics' interface as EdgeKit's Swift sources use. It draws nothing.

@_exported import Foundation

public final class CGColorSpace {}

public func CGColorSpaceCreateDeviceGray() -> CGColorSpace { CGColorSpace() }
public func CGColorSpaceCreateDeviceRGB() -> CGColorSpace { CGColorSpace() }

public final class CGImage {
    public let width: Int
    public let height: Int

    public init(width: Int = 0, height: Int = 0) {
        (self.width, self.height) = (width, height)
    }

    public func cropping(to rect: CGRect) -> CGImage? { self }
}

public final class CGColor {
    public init?(colorSpace: CGColorSpace, components: [CGFloat]) {}
}

public enum CGImageAlphaInfo: UInt32, Sendable {
    case none = 0
    case noneSkipLast = 5
}

public enum CGInterpolationQuality: Int32, Sendable {
    case high = 3
}

public final class CGContext {
    public var interpolationQuality = CGInterpolationQuality.high

    public init?(
        data: UnsafeMutableRawPointer?, width: Int, height: Int, bitsPerComponent: Int, bytesPerRow: Int,
        space: CGColorSpace, bitmapInfo: UInt32
    ) {}

    public func setFillColor(_ color: CGColor) {}
    public func fill(_ rect: CGRect) {}
    public func draw(_ image: CGImage, in rect: CGRect) {}
    public func makeImage() -> CGImage? { nil }
}
