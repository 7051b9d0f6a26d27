#if canImport(CoreAI)
import CoreAI
import Foundation

/// A model in Core AI.
@available(iOS 27, macOS 27, tvOS 27, visionOS 27, watchOS 27, *)
struct CoreAIBuild: ExecutableBuild {
    static let suffix = "aimodel"

    let build: Manifest.Build
    let runtime = "Core AI"
    let settings = ""

    private let function: InferenceFunction

    /// Specializes the model for this device and loads it. The system keeps what it made for the next time.
    init(_ build: Manifest.Build, in folder: URL) async throws {
        let model = try await AIModel(contentsOf: folder.appendingPathComponent(build.model.main))
        guard let function = try model.loadFunction(named: "main") else {
            throw ValueError.noSuchFeature("main")
        }
        self.build = build
        self.function = function
    }

    func run(_ inputs: [NumPyArray]) async throws -> (outputs: [[Double]], elapsed: Duration) {
        // An input that nothing is computed from is not among the function's.
        let known = Set(function.descriptor.inputNames)
        var values: [String: NDArray] = [:]
        for (input, array) in zip(build.inputs, inputs) where known.contains(input.nativeName) {
            values[input.nativeName] = try input.array(of: array)
        }
        let start = ContinuousClock.now
        var results = try await function.run(inputs: values)
        let elapsed = ContinuousClock.now - start
        var outputs: [[Double]] = []
        for output in build.outputs {
            guard let array = results.remove(output.nativeName)?.ndArray else {
                throw ValueError.noSuchFeature(output.nativeName)
            }
            outputs.append(try output.elements(of: array))
        }
        return (outputs, elapsed)
    }
}

@available(iOS 27, macOS 27, tvOS 27, visionOS 27, watchOS 27, *)
extension Manifest.Feature {
    /// The values in the element type that the model wants.
    func array(of array: NumPyArray) throws -> NDArray {
        let (values, shape) = (array.values, shape(for: array))
        guard shape.reduce(1, *) == values.count else {
            throw ValueError.otherSize(nativeName, expected: shape.reduce(1, *), found: values.count)
        }
        switch nativeDtype {
        case "float32": return NDArray(scalars: values.map { Float($0) }, shape: shape)
        #if arch(arm64)
        case "float16": return NDArray(scalars: values.map { Float16($0) }, shape: shape)
        #endif
        case "int32": return NDArray(scalars: values.map { Int32(nearest: $0) }, shape: shape)
        case "uint32": return NDArray(scalars: values.map { UInt32(nearest: $0) }, shape: shape)
        case "int16": return NDArray(scalars: values.map { Int16(nearest: $0) }, shape: shape)
        case "uint16": return NDArray(scalars: values.map { UInt16(nearest: $0) }, shape: shape)
        case "int8": return NDArray(scalars: values.map { Int8(nearest: $0) }, shape: shape)
        case "uint8": return NDArray(scalars: values.map { UInt8(nearest: $0) }, shape: shape)
        case "bool": return NDArray(scalars: values.map { $0 != 0 }, shape: shape)
        default: throw ValueError.unsupportedType(nativeName)
        }
    }

    /// The elements of an array that the model put out, row by row.
    func elements(of array: NDArray) throws -> [Double] {
        switch nativeDtype {
        case "float32": return rows(of: array, as: Float.self) { Double($0) }
        #if arch(arm64)
        case "float16": return rows(of: array, as: Float16.self) { Double($0) }
        #endif
        case "int32": return rows(of: array, as: Int32.self) { Double($0) }
        case "uint32": return rows(of: array, as: UInt32.self) { Double($0) }
        case "int16": return rows(of: array, as: Int16.self) { Double($0) }
        case "uint16": return rows(of: array, as: UInt16.self) { Double($0) }
        case "int8": return rows(of: array, as: Int8.self) { Double($0) }
        case "uint8": return rows(of: array, as: UInt8.self) { Double($0) }
        case "bool": return rows(of: array, as: Bool.self) { $0 ? 1 : 0 }
        default: throw ValueError.unsupportedType(nativeName)
        }
    }
}

/// The elements row by row, wherever the strides put them.
@available(iOS 27, macOS 27, tvOS 27, visionOS 27, watchOS 27, *)
private func rows<Element: BitwiseCopyable>(
    of array: NDArray, as type: Element.Type, _ number: (Element) -> Double
) -> [Double] {
    array.view(as: type).withUnsafePointer { pointer, shape, strides in
        let count = (0..<shape.count).reduce(1) { $0 * shape[$1] }
        return (0..<count).map { position in
            var (rest, offset) = (position, 0)
            for axis in (0..<shape.count).reversed() {
                offset += rest % shape[axis] * strides[axis]
                rest /= shape[axis]
            }
            return number(pointer[offset])
        }
    }
}
#endif
