import CoreML

/// An ML Program in Core ML. One that keeps states starts a sequence when it is made: each run is a step of it.
struct CoreMLBuild: ExecutableBuild {
    static let suffix = "mlpackage"

    let build: Manifest.Build
    let runtime = "Core ML"
    var settings: String { ", compute units \(computeUnits.name)" }

    private let model: MLModel
    private let computeUnits: MLComputeUnits
    private let preprocessing: ImagePreprocessing?
    private let sequence: (any ModelSequence)?

    init(
        _ build: Manifest.Build, model: MLModel, computeUnits: MLComputeUnits, preprocessing: ImagePreprocessing?
    ) throws {
        self.build = build
        self.model = model
        self.computeUnits = computeUnits
        self.preprocessing = preprocessing
        sequence = build.states?.isEmpty ?? true ? nil : try model.newSequence()
    }

    func run(_ inputs: [NumPyArray]) async throws -> (outputs: [[Double]], elapsed: Duration) {
        var values: [String: Any] = [:]
        for (input, array) in zip(build.inputs, inputs) {
            values[input.nativeName] = try value(of: array, for: input)
        }
        let start = ContinuousClock.now
        let results = try sequence?.outputs(for: values) ?? model.outputs(for: values)
        let elapsed = ContinuousClock.now - start
        return (try build.outputs.map { try results.outputValues(named: $0.nativeName) }, elapsed)
    }

    private func value(of array: NumPyArray, for input: Manifest.Feature) throws -> Any {
        let name = input.nativeName
        if let preprocessing, model.modelDescription.inputDescriptionsByName[name]?.type == .image {
            return try preprocessing.picture(of: array.values, named: name)
        }
        let isOpen = input.nativeShape.contains(nil)
        return try model.inputArray(array.values, named: name, shape: isOpen ? array.shape : nil)
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
