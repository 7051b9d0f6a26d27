import CoreML
import Foundation

/// What a device computed of a bundle's golden samples: what `edgekit verify BUNDLE --results FILE` reads.
public struct GoldenResults: Codable, Sendable, Equatable {
    public struct Output: Codable, Sendable, Equatable {
        /// The ONNX name.
        public let name: String
        /// The elements row by row, as 64-bit floats, little-endian, in Base64.
        public let values: String

        public init(name: String, elements: [Double]) {
            self.name = name
            var bytes = Data(capacity: elements.count * MemoryLayout<UInt64>.size)
            for element in elements {
                withUnsafeBytes(of: element.bitPattern.littleEndian) { bytes.append(contentsOf: $0) }
            }
            values = bytes.base64EncodedString()
        }

        var elements: [Double] {
            let bytes = [UInt8](Data(base64Encoded: values) ?? Data())
            let width = MemoryLayout<UInt64>.size
            return stride(from: 0, to: bytes.count - bytes.count % width, by: width).map { start in
                Double(bitPattern: bytes[start..<(start + width)].reversed().reduce(0) { $0 << 8 | UInt64($1) })
            }
        }
    }

    public struct Sample: Codable, Sendable, Equatable {
        /// Of one run.
        public let milliseconds: Double
        /// In the manifest's order.
        public let outputs: [Output]
    }

    public let format: Int
    /// The text of the bundle's manifest, which holds the SHA-256 of all its files.
    public let manifest: String
    public let executedBy: String
    /// From the model's file to a model that is ready.
    public let loadMs: Double
    public let samples: [Sample]

    /// The results file.
    public func json() throws -> Data {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        return try encoder.encode(self)
    }
}

extension ModelBundle {
    /// Runs the golden samples on this device.
    public func runGoldenSamples(computeUnits: MLComputeUnits = .all) async throws -> GoldenResults {
        let clock = ContinuousClock()
        let start = clock.now
        let model = try await loadModel(computeUnits: computeUnits)
        let loading = clock.now - start
        let samples = try (0..<manifest.golden.samples).map { sample in
            let inputs = try inputs(of: sample, for: model)
            let begin = clock.now
            let results = try model.outputs(for: inputs)
            let elapsed = clock.now - begin
            let outputs = try manifest.outputs.map { output in
                GoldenResults.Output(
                    name: output.name, elements: try results.outputValues(named: output.nativeName))
            }
            return GoldenResults.Sample(milliseconds: elapsed / .milliseconds(1), outputs: outputs)
        }
        let system = ProcessInfo.processInfo.operatingSystemVersionString
        return GoldenResults(
            format: 1,
            manifest: try manifestText(),
            executedBy: "Core ML, \(machineName()), \(system), compute units \(computeUnits.name)",
            loadMs: loading / .milliseconds(1),
            samples: samples
        )
    }

    /// A golden sample as the model takes it.
    private func inputs(of sample: Int, for model: MLModel) throws -> [String: Any] {
        var inputs: [String: Any] = [:]
        for (position, input) in manifest.inputs.enumerated() {
            let array = try golden(sample: sample, kind: "inputs", position: position)
            let name = input.nativeName
            if let preprocessing = imagePreprocessing(ofPictureInput: name, of: model) {
                inputs[name] = try preprocessing.picture(of: array.values, named: name)
            } else {
                let isOpen = input.nativeShape.contains(nil)
                inputs[name] = try model.inputArray(array.values, named: name, shape: isOpen ? array.shape : nil)
            }
        }
        return inputs
    }

    private func imagePreprocessing(ofPictureInput name: String, of model: MLModel) -> ImagePreprocessing? {
        model.modelDescription.inputDescriptionsByName[name]?.type == .image ? manifest.imagePreprocessing : nil
    }
}

extension MLComputeUnits {
    /// What EdgeKit calls the units.
    var name: String {
        switch self {
        case .cpuOnly: "CPU_ONLY"
        case .cpuAndGPU: "CPU_AND_GPU"
        case .cpuAndNeuralEngine: "CPU_AND_NE"
        case .all: "ALL"
        @unknown default: "\(rawValue)"
        }
    }
}

/// The kind of device as the system calls it, such as `iPhone16,1`.
private func machineName() -> String {
    var system = utsname()
    uname(&system)
    return withUnsafeBytes(of: &system.machine) { bytes in
        String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
}
