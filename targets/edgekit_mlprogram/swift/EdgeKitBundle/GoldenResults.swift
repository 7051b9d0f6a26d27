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
    /// The device profile of the build that was run.
    public let profile: String
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
    /// Runs the golden samples on this device, with the build that it executes.
    ///
    /// - Parameter computeUnits: What Core ML may compute on. Core AI chooses by itself.
    public func runGoldenSamples(computeUnits: MLComputeUnits = .all) async throws -> GoldenResults {
        let clock = ContinuousClock()
        let start = clock.now
        let executable = try await executable(computeUnits: computeUnits)
        let loading = clock.now - start
        var samples: [GoldenResults.Sample] = []
        for sample in 0..<manifest.golden.samples {
            let inputs = try manifest.inputs.indices.map { try golden(sample: sample, kind: "inputs", position: $0) }
            let run = try await executable.run(inputs)
            let outputs = zip(manifest.outputs, run.outputs).map { output, elements in
                GoldenResults.Output(name: output.name, elements: elements)
            }
            samples.append(GoldenResults.Sample(milliseconds: run.elapsed / .milliseconds(1), outputs: outputs))
        }
        let system = ProcessInfo.processInfo.operatingSystemVersionString
        return GoldenResults(
            format: 1,
            manifest: try manifestText(),
            profile: executable.build.target.profile,
            executedBy: "\(executable.runtime), \(machineName()), \(system)\(executable.settings)",
            loadMs: loading / .milliseconds(1),
            samples: samples
        )
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
