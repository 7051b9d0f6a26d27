import CoreGraphics
import EdgeKitBundle

/// Finds faces with the bundle `faces-ios18`, and recognizes their expressions with the bundle `expressions-ios18`.
public struct ExpressionReader {
    public struct Face: Sendable {
        /// The face's box in the picture's pixels, from the upper left corner.
        public let box: CGRect
        /// The detector's confidence that this is a face.
        public let score: Double
        public let expression: String
        public let probability: Double
    }

    private static let leastScore = 0.7
    /// Margin on each side of a face, as a share of the face's longer side.
    private static let margin = 0.1

    private let faces: Detector
    private let expressions: Classifier

    public init(faces: ModelBundle, expressions: ModelBundle) async throws {
        self.faces = try await faces.detector()
        self.expressions = try await expressions.classifier()
    }

    /// The faces in the picture, the one with the highest score first, and their expressions.
    public func read(_ picture: CGImage) async throws -> [Face] {
        var read: [Face] = []
        for face in try await faces.predict(picture, confidence: Self.leastScore) {
            let side = max(face.box.width, face.box.height) * (1 + 2 * Self.margin)
            let square = CGRect(
                x: face.box.midX - side / 2, y: face.box.midY - side / 2, width: side, height: side)
            guard let cut = picture.cropping(to: square), let best = try await expressions.predict(cut).first else {
                continue
            }
            read.append(
                Face(
                    box: face.box, score: face.confidence, expression: best.label, probability: best.probability))
        }
        return read
    }
}
