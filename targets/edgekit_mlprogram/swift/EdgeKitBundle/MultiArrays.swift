import CoreML

/// What keeps a value from being handed to a model or taken from it.
public enum ValueError: Error, Equatable {
    case noSuchFeature(String)
    case otherSize(String, expected: Int, found: Int)
    case unsupportedType(String)
    case noPixelBuffer(String)
    /// The system loads none of these models.
    case noBuild([String])
    /// The folder holds none of these.
    case noModel([String])
    /// The model keeps states from run to run: Core ML does that from iOS 18 and macOS 15 on, and this package does it
    /// with Core ML alone.
    case keepsStates
}

extension MLModel {
    /// The values as the array that the model's input called `name` wants, in its own element type.
    ///
    /// - Parameter shape: The array's shape; nil takes the one that the model declares.
    public func inputArray(_ values: [Double], named name: String, shape: [Int]? = nil) throws -> MLMultiArray {
        guard let constraint = modelDescription.inputDescriptionsByName[name]?.multiArrayConstraint else {
            throw ValueError.noSuchFeature(name)
        }
        let shape = shape ?? constraint.shape.map(\.intValue)
        let size = shape.reduce(1, *)
        guard size == values.count else {
            throw ValueError.otherSize(name, expected: size, found: values.count)
        }
        switch constraint.dataType {
        case .float32: return MLMultiArray(MLShapedArray(scalars: values.map { Float($0) }, shape: shape))
        case .double: return MLMultiArray(MLShapedArray(scalars: values, shape: shape))
        case .int32: return MLMultiArray(MLShapedArray(scalars: values.map { Int32(nearest: $0) }, shape: shape))
        #if arch(arm64)
        case .float16: return MLMultiArray(MLShapedArray(scalars: values.map { Float16($0) }, shape: shape))
        #endif
        default: throw ValueError.unsupportedType(name)
        }
    }
}

extension FixedWidthInteger {
    /// The nearest integer of this type, halves to the even one: that is how EdgeKit prepares integer inputs.
    init(nearest number: Double) {
        let whole = number.rounded(.toNearestOrEven)
        self = Self(exactly: whole) ?? (whole > 0 ? .max : whole < 0 ? .min : 0)
    }
}

extension MLModel {
    /// What the model makes of arrays and pictures. Not asynchronous, since Core ML is that only from iOS 17 on.
    public func outputs(for inputs: [String: Any]) throws -> any MLFeatureProvider {
        try prediction(from: MLDictionaryFeatureProvider(dictionary: inputs))
    }
}

/// A sequence of runs of a model that keeps states: each run finds what the one before it left.
public protocol ModelSequence {
    /// What the model makes of the next step.
    func outputs(for inputs: [String: Any]) throws -> any MLFeatureProvider
}

extension MLModel {
    /// A new sequence, whose states are zero.
    ///
    /// - Throws: ``ValueError/keepsStates`` where the system knows no states.
    public func newSequence() throws -> any ModelSequence {
        guard #available(iOS 18, macOS 15, tvOS 18, visionOS 2, watchOS 11, *) else {
            throw ValueError.keepsStates
        }
        return StatefulSequence(model: self, state: makeState())
    }
}

@available(iOS 18, macOS 15, tvOS 18, visionOS 2, watchOS 11, *)
private struct StatefulSequence: ModelSequence {
    let model: MLModel
    let state: MLState

    func outputs(for inputs: [String: Any]) throws -> any MLFeatureProvider {
        try model.prediction(from: MLDictionaryFeatureProvider(dictionary: inputs), using: state)
    }
}

extension MLFeatureProvider {
    /// The elements of the output called `name`, row by row.
    public func outputValues(named name: String) throws -> [Double] {
        guard let array = featureValue(for: name)?.multiArrayValue else {
            throw ValueError.noSuchFeature(name)
        }
        return Array(MLShapedArray<Double>(converting: array).scalars)
    }
}
