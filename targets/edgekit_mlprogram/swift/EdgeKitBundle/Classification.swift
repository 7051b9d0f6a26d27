import CoreGraphics
import CoreML
import Foundation

/// A class that a picture may show.
public struct Classification: Sendable, Equatable {
    /// Its number, from 0.
    public let index: Int
    public let label: String
    /// From 0 to 1; all classes together have 1, unless the model scores each independently of the others.
    public let probability: Double
}

/// What keeps a bundle from classifying pictures.
public enum ClassifierError: Error, Equatable {
    /// The manifest does not say how a picture becomes the input.
    case takesNoPicture
    /// The manifest names no output that tells the probability of each label.
    case givesNoClasses
}

/// A bundle's model, loaded once, that tells what a picture shows.
public struct Classifier {
    private let executable: any ExecutableBuild
    private let preprocessing: ImagePreprocessing
    private let labels: [String]
    private let output: Int
    private let classes: Manifest.Classes

    init(_ manifest: Manifest, executable: any ExecutableBuild) throws {
        guard let preprocessing = manifest.imagePreprocessing, manifest.inputs.count == 1 else {
            throw ClassifierError.takesNoPicture
        }
        guard let labels = manifest.labels, let classes = manifest.classes,
            (classes.scores ?? .integers) != .integers,
            let output = executable.build.outputs.firstIndex(where: { $0.name == classes.output })
        else {
            throw ClassifierError.givesNoClasses
        }
        self.classes = classes
        (self.executable, self.preprocessing, self.labels, self.output) = (executable, preprocessing, labels, output)
    }

    /// The classes that the picture may show, the most probable first.
    public func predict(_ picture: CGImage) async throws -> [Classification] {
        let scores = try await executable.run(picture, by: preprocessing)[output]
        guard scores.count == labels.count, let probabilities = classes.probabilities(of: scores) else {
            throw ClassifierError.givesNoClasses
        }
        return zip(labels, probabilities).enumerated()
            .map { Classification(index: $0.offset, label: $0.element.0, probability: $0.element.1) }
            .sorted { $0.probability > $1.probability }
    }
}

extension ModelBundle {
    /// Loads the model to classify pictures.
    public func classifier(computeUnits: MLComputeUnits = .all) async throws -> Classifier {
        try Classifier(manifest, executable: try await executable(computeUnits: computeUnits))
    }
}

extension Manifest.Classes.Scores {
    /// The softmax of logits; other scores are probabilities themselves.
    public func probabilities(of scores: [Double]) -> [Double] {
        guard self == .logits else { return scores }
        let peak = scores.max() ?? 0
        let powers = scores.map { exp($0 - peak) }
        let total = powers.reduce(0, +)
        return powers.map { $0 / total }
    }
}
