import CoreGraphics
import CoreML
import Foundation

/// Something that a picture shows.
public struct Detection: Sendable, Equatable {
    /// The number of its class, from 0; a class that stands for nothing is not counted.
    public let index: Int
    /// nil where the bundle has no name for the class.
    public let label: String?
    /// From 0 to 1.
    public let confidence: Double
    /// In pixels of the picture, from its upper left corner; as far as it lies in the picture.
    public let box: CGRect
}

/// What keeps a bundle from finding things in pictures.
public enum DetectorError: Error, Equatable {
    /// The manifest does not say how a picture becomes the input.
    case takesNoPicture
    /// The manifest does not say how outputs are read as boxes: see `outputs(for:)`.
    case tellsNoBoxes
    /// The manifest names a form of boxes that this package does not know.
    case unknownForm(String)
    /// The manifest does not know whether x or y comes first in a box.
    case unknownOrder
}

/// A bundle's model, loaded once, that tells what a picture shows and where.
public struct Detector {
    private let executable: any ExecutableBuild
    private let preprocessing: ImagePreprocessing
    private let reading: any BoxReading
    private let labels: [String]?

    init(_ manifest: Manifest, executable: any ExecutableBuild) throws {
        guard let preprocessing = manifest.imagePreprocessing, manifest.inputs.count == 1 else {
            throw DetectorError.takesNoPicture
        }
        guard let boxes = manifest.accuracy?.meaning?.boxes else {
            throw DetectorError.tellsNoBoxes
        }
        reading = try boxes.reading()
        labels = reading.names(of: manifest.labels)
        (self.executable, self.preprocessing) = (executable, preprocessing)
    }

    /// What the picture shows, the surest first.
    ///
    /// - Parameters:
    ///   - confidence: The least that counts.
    ///   - overlap: Of boxes of one class that overlap by more, intersection over union, the surest is kept. A model that
    ///     suppresses boxes itself does so by a number of its own.
    public func predict(
        _ picture: CGImage, confidence: Double = 0.25, overlap: Double = 0.5
    ) async throws -> [Detection] {
        let run = try await executable.run(picture, by: preprocessing)
        let outputs = Dictionary(uniqueKeysWithValues: zip(executable.build.outputs.map(\.name), run))
        let (height, width) = (Double(preprocessing.size[0]), Double(preprocessing.size[1]))
        let found = try reading.boxes(in: outputs, width: width, height: height, confidence: confidence)
        let kept = reading.areSuppressed ? ScoredBox.strongest(found) : ScoredBox.suppressed(found, overlap: overlap)
        return try kept.compactMap { box in
            let place = try preprocessing.inPicture(
                box.corners, pictureWidth: Double(picture.width), pictureHeight: Double(picture.height))
            guard !place.isNull else { return nil }
            let label = labels.flatMap { $0.indices.contains(box.index) ? $0[box.index] : nil }
            return Detection(index: box.index, label: label, confidence: box.score, box: place)
        }
    }
}

extension ModelBundle {
    /// Loads the model to find things in pictures.
    public func detector(computeUnits: MLComputeUnits = .all) async throws -> Detector {
        try Detector(manifest, executable: try await executable(computeUnits: computeUnits))
    }
}

/// Sides of a rectangle, from the upper left corner of what it lies in.
struct Corners: Equatable {
    let left: Double
    let top: Double
    let right: Double
    let bottom: Double

    var area: Double { max(right - left, 0) * max(bottom - top, 0) }
    var isFinite: Bool { [left, top, right, bottom].allSatisfy(\.isFinite) }

    /// Intersection over union; 0 where both are empty.
    func overlap(_ other: Corners) -> Double {
        let common = Corners(
            left: max(left, other.left), top: max(top, other.top), right: min(right, other.right),
            bottom: min(bottom, other.bottom))
        let union = area + other.area - common.area
        return union > 0 ? common.area / union : 0
    }
}

/// A box on the model's input, in its pixels.
struct ScoredBox: Equatable {
    let corners: Corners
    let score: Double
    let index: Int

    /// How many boxes go into suppression, and come out of it, at most.
    private static let mostBefore = 1000, mostAfter = 300

    /// The boxes with the largest scores, the largest first.
    static func strongest(_ boxes: [ScoredBox]) -> [ScoredBox] {
        let order = boxes.indices.sorted { (boxes[$1].score, $0) < (boxes[$0].score, $1) }
        return order.prefix(mostBefore).map { boxes[$0] }
    }

    /// Non-maximum suppression, greedy and by class.
    static func suppressed(_ boxes: [ScoredBox], overlap: Double) -> [ScoredBox] {
        var kept: [ScoredBox] = []
        for box in strongest(boxes) where kept.count < mostAfter {
            if kept.allSatisfy({ $0.index != box.index || $0.corners.overlap(box.corners) <= overlap }) {
                kept.append(box)
            }
        }
        return kept
    }
}
