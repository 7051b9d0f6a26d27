// As much of Core ML's interface as EdgeKit's Swift sources use, so that they compile and run without a Mac.
//
// The model is no model: its package holds `stub.json`, which names inputs and outputs, and every output is the negated
// input in the same place, or what `constants` holds for it. With a state, the number of the run in it is added.

import CoreVideo
import Foundation

public enum MLComputeUnits: Int, Sendable {
    case cpuOnly = 0
    case cpuAndGPU = 1
    case all = 2
    case cpuAndNeuralEngine = 3
}

public final class MLModelConfiguration {
    public var computeUnits = MLComputeUnits.all
    public init() {}
}

public enum MLMultiArrayDataType: Int, Sendable {
    case double = 0x10040
    case float32 = 0x10020
    case float16 = 0x10010
    case int32 = 0x20020
}

public final class MLMultiArray {
    public let shape: [NSNumber]
    public let dataType: MLMultiArrayDataType
    let values: [Double]

    init(values: [Double], shape: [Int], dataType: MLMultiArrayDataType) {
        self.values = values
        self.shape = shape.map { NSNumber(value: $0) }
        self.dataType = dataType
    }
}

public protocol MLShapedArrayScalar: Sendable {
    static var multiArrayDataType: MLMultiArrayDataType { get }
    var number: Double { get }
    init(number: Double)
}

extension Float: MLShapedArrayScalar {
    public static var multiArrayDataType: MLMultiArrayDataType { .float32 }
    public var number: Double { Double(self) }
    public init(number: Double) { self.init(number) }
}

extension Double: MLShapedArrayScalar {
    public static var multiArrayDataType: MLMultiArrayDataType { .double }
    public var number: Double { self }
    public init(number: Double) { self = number }
}

extension Int32: MLShapedArrayScalar {
    public static var multiArrayDataType: MLMultiArrayDataType { .int32 }
    public var number: Double { Double(self) }
    public init(number: Double) { self.init(number) }
}

#if arch(arm64)
extension Float16: MLShapedArrayScalar {
    public static var multiArrayDataType: MLMultiArrayDataType { .float16 }
    public var number: Double { Double(self) }
    public init(number: Double) { self.init(number) }
}
#endif

public struct MLShapedArray<Scalar: MLShapedArrayScalar> {
    public let scalars: [Scalar]
    public let shape: [Int]

    public init(scalars: [Scalar], shape: [Int]) {
        precondition(scalars.count == shape.reduce(1, *))
        self.scalars = scalars
        self.shape = shape
    }

    public init(converting array: MLMultiArray) {
        self.init(scalars: array.values.map { Scalar(number: $0) }, shape: array.shape.map(\.intValue))
    }
}

extension MLMultiArray {
    public convenience init<Scalar: MLShapedArrayScalar>(_ array: MLShapedArray<Scalar>) {
        self.init(values: array.scalars.map(\.number), shape: array.shape, dataType: Scalar.multiArrayDataType)
    }
}

public final class MLFeatureValue {
    public let multiArrayValue: MLMultiArray?
    public let imageBufferValue: CVPixelBuffer?

    public init(multiArray: MLMultiArray) {
        multiArrayValue = multiArray
        imageBufferValue = nil
    }

    public init(pixelBuffer: CVPixelBuffer) {
        multiArrayValue = nil
        imageBufferValue = pixelBuffer
    }
}

public protocol MLFeatureProvider {
    var featureNames: Set<String> { get }
    func featureValue(for featureName: String) -> MLFeatureValue?
}

public final class MLDictionaryFeatureProvider: MLFeatureProvider {
    private let values: [String: MLFeatureValue]

    public init(dictionary: [String: Any]) throws {
        values = try dictionary.mapValues { value in
            if let array = value as? MLMultiArray { return MLFeatureValue(multiArray: array) }
            guard let value = value as? MLFeatureValue else { throw CocoaError(.coderInvalidValue) }
            return value
        }
    }

    public var featureNames: Set<String> { Set(values.keys) }
    public func featureValue(for featureName: String) -> MLFeatureValue? { values[featureName] }
}

public enum MLFeatureType: Int, Sendable {
    case invalid = 0
    case image = 4
    case multiArray = 5
}

public struct MLMultiArrayConstraint {
    public let shape: [NSNumber]
    public let dataType: MLMultiArrayDataType
}

public struct MLFeatureDescription {
    public let type: MLFeatureType
    public let multiArrayConstraint: MLMultiArrayConstraint?
}

public struct MLModelDescription {
    public let inputDescriptionsByName: [String: MLFeatureDescription]
}

public final class MLState {
    var runs = 0
}

public final class MLModel {
    private struct Stub: Decodable {
        struct Input: Decodable {
            let name: String
            /// nil for a picture.
            let shape: [Int]?
        }

        let inputs: [Input]
        let outputs: [String]
        /// Elements of outputs, by name.
        let constants: [String: [Double]]?
    }

    private let stub: Stub
    public let modelDescription: MLModelDescription

    private init(_ stub: Stub) {
        self.stub = stub
        let described = stub.inputs.map { input in
            let shape = input.shape.map { $0.map { NSNumber(value: $0) } }
            let constraint = shape.map { MLMultiArrayConstraint(shape: $0, dataType: .float32) }
            return (input.name, MLFeatureDescription(type: shape == nil ? .image : .multiArray, multiArrayConstraint: constraint))
        }
        modelDescription = MLModelDescription(inputDescriptionsByName: Dictionary(uniqueKeysWithValues: described))
    }

    /// Leaves a copy in a temporary folder, from which whoever wants to keep it has to move it.
    public static func compileModel(at modelURL: URL) async throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let compiled = folder.appendingPathComponent("model.mlmodelc")
        try FileManager.default.copyItem(at: modelURL, to: compiled)
        return compiled
    }

    public static func load(contentsOf url: URL, configuration: MLModelConfiguration) async throws -> MLModel {
        let content = try Data(contentsOf: url.appendingPathComponent("stub.json"))
        return MLModel(try JSONDecoder().decode(Stub.self, from: content))
    }

    public func makeState() -> MLState { MLState() }

    public func prediction(from input: any MLFeatureProvider, using state: MLState) throws -> any MLFeatureProvider {
        let plain = try prediction(from: input)
        var results: [String: Any] = [:]
        for name in plain.featureNames {
            guard let array = plain.featureValue(for: name)?.multiArrayValue else { continue }
            results[name] = MLMultiArray(
                values: array.values.map { $0 + Double(state.runs) }, shape: array.shape.map(\.intValue),
                dataType: array.dataType)
        }
        state.runs += 1
        return try MLDictionaryFeatureProvider(dictionary: results)
    }

    public func prediction(from input: any MLFeatureProvider) throws -> any MLFeatureProvider {
        var results: [String: Any] = [:]
        for (described, output) in zip(stub.inputs, stub.outputs) {
            guard let value = input.featureValue(for: described.name) else { throw CocoaError(.coderValueNotFound) }
            if let picture = value.imageBufferValue {
                results[output] = MLMultiArray(
                    values: picture.bytes.map { -Double($0) }, shape: [picture.bytes.count], dataType: .float32)
            } else if let array = value.multiArrayValue {
                results[output] = MLMultiArray(
                    values: array.values.map { -$0 }, shape: array.shape.map(\.intValue), dataType: array.dataType)
            }
        }
        for (output, values) in stub.constants ?? [:] {
            results[output] = MLMultiArray(values: values, shape: [values.count], dataType: .float32)
        }
        return try MLDictionaryFeatureProvider(dictionary: results)
    }
}
