// As much of Core AI's interface as EdgeKit's Swift sources use, so that they compile and run without a Mac.
//
// The model is no model: its folder holds `stub.json`, which names inputs and outputs, and every output is the negated
// input in the same place, stored with gaps between its rows. Arrays hold float32. Core AI's closures get spans of sizes
// and strides, which Swift has from 6.2 on; these get arrays, which are read in the same way.

import Foundation

public struct NDArray: Sendable {
    private static let gap = 3
    public let shape: [Int]
    let strides: [Int]
    let storage: [Float]

    public init<Scalars: Sequence>(scalars: Scalars, shape: [Int]) where Scalars.Element: BitwiseCopyable {
        let values = scalars.map { $0 as! Float }
        precondition(values.count == shape.reduce(1, *))
        let width = shape.last ?? 1
        var storage = [Float](repeating: .nan, count: values.count / max(width, 1) * (width + Self.gap))
        for (place, value) in values.enumerated() {
            storage[place / width * (width + Self.gap) + place % width] = value
        }
        var strides = shape
        var size = 1
        for axis in shape.indices.reversed() {
            strides[axis] = size
            size *= axis == shape.count - 1 ? shape[axis] + Self.gap : shape[axis]
        }
        self.shape = shape
        self.strides = strides
        self.storage = storage
    }

    public struct View<Element: BitwiseCopyable> {
        let array: NDArray

        public func withUnsafePointer<Result>(
            _ body: (UnsafePointer<Element>, [Int], [Int]) throws -> Result
        ) rethrows -> Result {
            try array.storage.withUnsafeBytes { bytes in
                try body(bytes.baseAddress!.assumingMemoryBound(to: Element.self), array.shape, array.strides)
            }
        }
    }

    public func view<Element: BitwiseCopyable>(as type: Element.Type) -> View<Element> {
        precondition(type == Float.self)
        return View(array: self)
    }

    var negated: NDArray {
        let rows = storage.count / max((shape.last ?? 1) + Self.gap, 1)
        let width = shape.last ?? 1
        let values = (0..<rows).flatMap { row in (0..<width).map { -storage[row * (width + Self.gap) + $0] } }
        return NDArray(scalars: values, shape: shape)
    }
}

public struct InferenceValue {
    public let ndArray: NDArray?
}

public struct InferenceFunctionDescriptor: Sendable {
    public let inputNames: [String]
}

public struct InferenceFunction: Sendable {
    public struct Outputs {
        var values: [String: NDArray]

        public mutating func remove(_ name: String) -> InferenceValue? {
            values.removeValue(forKey: name).map { InferenceValue(ndArray: $0) }
        }
    }

    public let descriptor: InferenceFunctionDescriptor
    let outputs: [String]

    public func run(inputs: [String: NDArray]) async throws -> Outputs {
        guard Set(inputs.keys) == Set(descriptor.inputNames) else { throw CocoaError(.coderValueNotFound) }
        let results = zip(descriptor.inputNames, outputs).map { ($1, inputs[$0]!.negated) }
        return Outputs(values: Dictionary(uniqueKeysWithValues: results))
    }
}

public struct AIModel: Sendable {
    private struct Stub: Decodable {
        let inputs: [String]
        let outputs: [String]
    }

    private let stub: Stub

    public init(contentsOf url: URL) async throws {
        stub = try JSONDecoder().decode(Stub.self, from: Data(contentsOf: url.appendingPathComponent("stub.json")))
    }

    public func loadFunction(named name: String) throws -> InferenceFunction? {
        guard name == "main" else { return nil }
        return InferenceFunction(descriptor: InferenceFunctionDescriptor(inputNames: stub.inputs), outputs: stub.outputs)
    }
}
