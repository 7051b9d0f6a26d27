// As much of Core Video's interface as EdgeKit's Swift sources use.

public typealias CVReturn = Int32
public typealias OSType = UInt32
public let kCVReturnSuccess: CVReturn = 0
public let kCVPixelFormatType_32BGRA: OSType = 0x4247_5241
public let kCVPixelFormatType_OneComponent8: OSType = 0x4C30_3038
public let kCFAllocatorDefault: AnyObject? = nil

public struct CVPixelBufferLockFlags: OptionSet, Sendable {
    public let rawValue: UInt64
    public init(rawValue: UInt64) { self.rawValue = rawValue }
    public static let readOnly = Self(rawValue: 1)
}

/// Its rows are longer than its pixels, as those of real ones may be.
public final class CVPixelBuffer {
    static let padding = 8
    let row: Int
    let rows: Int
    let base: UnsafeMutableRawPointer

    init(row: Int, rows: Int) {
        self.row = row
        self.rows = rows
        base = .allocate(byteCount: (row + Self.padding) * rows, alignment: 16)
    }

    deinit { base.deallocate() }

    /// The pixels' bytes, row by row.
    public var bytes: [UInt8] {
        (0..<rows).flatMap { number in
            (0..<row).map { base.load(fromByteOffset: number * (row + Self.padding) + $0, as: UInt8.self) }
        }
    }
}

public func CVPixelBufferCreate(
    _ allocator: AnyObject?, _ width: Int, _ height: Int, _ pixelFormatType: OSType, _ attributes: AnyObject?,
    _ pixelBufferOut: UnsafeMutablePointer<CVPixelBuffer?>
) -> CVReturn {
    pixelBufferOut.pointee = CVPixelBuffer(
        row: width * (pixelFormatType == kCVPixelFormatType_32BGRA ? 4 : 1), rows: height)
    return kCVReturnSuccess
}

@discardableResult
public func CVPixelBufferLockBaseAddress(_ buffer: CVPixelBuffer, _ flags: CVPixelBufferLockFlags) -> CVReturn { 0 }

@discardableResult
public func CVPixelBufferUnlockBaseAddress(_ buffer: CVPixelBuffer, _ flags: CVPixelBufferLockFlags) -> CVReturn { 0 }

public func CVPixelBufferGetBaseAddress(_ buffer: CVPixelBuffer) -> UnsafeMutableRawPointer? { buffer.base }

public func CVPixelBufferGetBytesPerRow(_ buffer: CVPixelBuffer) -> Int { buffer.row + CVPixelBuffer.padding }
