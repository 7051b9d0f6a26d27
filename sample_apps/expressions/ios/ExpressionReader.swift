import CoreGraphics
import CoreML
import EdgeKitBundle
import Foundation

/// Finds faces with the bundle `faces-ios18`, and tells what they express with the bundle `expressions-ios18`.
public struct ExpressionReader {
    public struct Face: Sendable {
        /// In the picture's pixels, from its upper left corner.
        public let box: CGRect
        /// How sure it is that this is a face.
        public let score: Double
        /// Empty until the expression is read.
        public internal(set) var expression = ""
        public internal(set) var probability = 0.0
    }

    public enum ReaderError: Error {
        /// A bundle that takes no pictures, by its name.
        case noPreprocessing(String)
    }

    /// A bundle's model, fed with pictures.
    private struct PictureModel {
        let manifest: Manifest
        let preprocessing: ImagePreprocessing
        let model: MLModel

        init(_ bundle: ModelBundle) async throws {
            guard let declared = bundle.manifest.imagePreprocessing else {
                throw ReaderError.noPreprocessing(bundle.manifest.name)
            }
            manifest = bundle.manifest
            preprocessing = declared
            model = try await bundle.loadModel()
        }

        /// The outputs' elements by the outputs' ONNX names.
        func outputs(for picture: CGImage) throws -> [String: [Double]] {
            let name = manifest.inputs[0].nativeName
            let array = try model.inputArray(preprocessing.input(for: picture), named: name)
            let results = try model.outputs(for: [name: array])
            return try Dictionary(
                uniqueKeysWithValues: manifest.outputs.map {
                    ($0.name, try results.outputValues(named: $0.nativeName))
                })
        }
    }

    private static let strides = [8, 16, 32]
    private static let leastScore = 0.7
    private static let mostOverlap = 0.3
    /// Of the face's longer side, on each side of it.
    private static let margin = 0.1

    private let faces: PictureModel
    private let expressions: PictureModel

    public init(faces: ModelBundle, expressions: ModelBundle) async throws {
        self.faces = try await PictureModel(faces)
        self.expressions = try await PictureModel(expressions)
    }

    /// The faces in the picture, the surest first, and what they express.
    public func read(_ picture: CGImage) throws -> [Face] {
        try find(in: picture).map { face in
            let side = max(face.box.width, face.box.height) * (1 + 2 * Self.margin)
            let square = CGRect(
                x: face.box.midX - side / 2, y: face.box.midY - side / 2, width: side, height: side)
            guard let cut = picture.cropping(to: square) else {
                return face
            }
            let scores = try expressions.outputs(for: cut)[expressions.manifest.outputs[0].name] ?? []
            guard let peak = scores.max(), let best = scores.firstIndex(of: peak) else {
                return face
            }
            var read = face
            read.expression = expressions.manifest.labels?[best] ?? String(best)
            read.probability = 1 / scores.reduce(0) { $0 + exp($1 - peak) }
            return read
        }
    }

    private func find(in picture: CGImage) throws -> [Face] {
        let outputs = try faces.outputs(for: picture)
        let (height, width) = (faces.preprocessing.size[0], faces.preprocessing.size[1])
        let factor = min(Double(width) / Double(picture.width), Double(height) / Double(picture.height))
        let found = Self.strides.flatMap { stride in
            Self.boxes(stride: stride, columns: width / stride, outputs: outputs, factor: factor)
        }
        return found.sorted { $0.score > $1.score }.reduce(into: []) { kept, face in
            if kept.allSatisfy({ Self.overlap($0.box, face.box) <= Self.mostOverlap }) {
                kept.append(face)
            }
        }
    }

    /// The boxes of one of YuNet's grids, decoded as OpenCV's FaceDetectorYN does.
    private static func boxes(stride: Int, columns: Int, outputs: [String: [Double]], factor: Double) -> [Face] {
        guard let cls = outputs["cls_\(stride)"], let obj = outputs["obj_\(stride)"],
            let bbox = outputs["bbox_\(stride)"]
        else {
            return []
        }
        let step = Double(stride) / factor
        return cls.indices.compactMap { cell in
            let score = (cls[cell] * obj[cell]).squareRoot()
            guard score >= leastScore else { return nil }
            let (width, height) = (exp(bbox[4 * cell + 2]), exp(bbox[4 * cell + 3]))
            let left = Double(cell % columns) + bbox[4 * cell] - width / 2
            let top = Double(cell / columns) + bbox[4 * cell + 1] - height / 2
            let box = CGRect(x: left * step, y: top * step, width: width * step, height: height * step)
            return Face(box: box, score: score)
        }
    }

    /// Intersection over union.
    private static func overlap(_ one: CGRect, _ other: CGRect) -> Double {
        let common = one.intersection(other)
        guard !common.isNull else { return 0 }
        let area = Double(common.width * common.height)
        return area / (Double(one.width * one.height + other.width * other.height) - area)
    }
}
