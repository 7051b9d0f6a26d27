import Foundation

/// An array from a file in NumPy's `.npy` format.
public struct NumPyArray: Sendable {
    public enum ReadingError: Error, Equatable {
        case noNumPyFile
        case truncated
        case unsupportedHeader(String)
    }

    public let shape: [Int]
    /// The elements, row by row. Integers beyond 2^53 lose their last digits.
    public let values: [Double]

    /// An array of these elements, row by row.
    public init(_ values: [Double], shape: [Int]) {
        self.values = values
        self.shape = shape
    }

    public init(contentsOf url: URL) throws {
        try self.init(Data(contentsOf: url))
    }

    /// Reads the content of a file, of format version 1, 2 or 3.
    public init(_ data: Data) throws {
        let bytes = [UInt8](data)
        guard bytes.count > 12, bytes.starts(with: [0x93] + Array("NUMPY".utf8)) else {
            throw ReadingError.noNumPyFile
        }
        let start = bytes[6] > 1 ? 12 : 10
        let length = (8..<start).reversed().reduce(0) { $0 << 8 | Int(bytes[$1]) }
        guard bytes.count >= start + length else {
            throw ReadingError.truncated
        }
        let header = String(decoding: bytes[start..<(start + length)], as: UTF8.self)
        guard
            let descr = header.firstMatch(of: #/'descr':\s*'([^']*)'/#)?.1,
            let sizes = header.firstMatch(of: #/'shape':\s*\(([^)]*)\)/#)?.1,
            !header.contains(#/'fortran_order':\s*True/#)
        else {
            throw ReadingError.unsupportedHeader(header)
        }
        shape = sizes.split(separator: ",").compactMap { Int($0.trimmingCharacters(in: .whitespaces)) }
        let elements = data.dropFirst(start + length)
        switch descr {
        case "<f4": values = try Self.elements(elements, as: UInt32.self) { Double(Float(bitPattern: $0)) }
        case "<f8": values = try Self.elements(elements, as: UInt64.self) { Double(bitPattern: $0) }
        case "|i1": values = try Self.elements(elements, as: Int8.self) { Double($0) }
        case "|u1", "|b1": values = try Self.elements(elements, as: UInt8.self) { Double($0) }
        case "<i2": values = try Self.elements(elements, as: Int16.self) { Double($0) }
        case "<u2": values = try Self.elements(elements, as: UInt16.self) { Double($0) }
        case "<i4": values = try Self.elements(elements, as: Int32.self) { Double($0) }
        case "<u4": values = try Self.elements(elements, as: UInt32.self) { Double($0) }
        case "<i8": values = try Self.elements(elements, as: Int64.self) { Double($0) }
        case "<u8": values = try Self.elements(elements, as: UInt64.self) { Double($0) }
        default: throw ReadingError.unsupportedHeader(header)
        }
        guard values.count == shape.reduce(1, *) else {
            throw ReadingError.truncated
        }
    }

    /// Little-endian integers, each made a number.
    private static func elements<Integer: FixedWidthInteger>(
        _ data: Data, as type: Integer.Type, _ number: (Integer) -> Double
    ) throws -> [Double] {
        let width = Integer.bitWidth / 8
        guard data.count.isMultiple(of: width) else {
            throw ReadingError.truncated
        }
        let count = data.count / width
        let stored = [Integer](unsafeUninitializedCapacity: count) { buffer, initializedCount in
            _ = data.copyBytes(to: buffer)
            initializedCount = count
        }
        return stored.map { number(Integer(littleEndian: $0)) }
    }
}
