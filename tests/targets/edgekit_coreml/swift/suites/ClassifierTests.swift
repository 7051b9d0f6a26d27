import CoreGraphics
import XCTest
@testable import EdgeKitBundle

final class ClassifierTests: XCTestCase {
    func testTheClassesOfAPictureTheMostProbableFirst() async throws {
        let classifier = try await ModelBundle().classifier()
        let classes = try await classifier.predict(CGImage())
        XCTAssertEqual(classes.map(\.label), ["cat", "dog", "bird"])
        XCTAssertEqual(classes.map(\.index), [2, 1, 0])
        for (found, wanted) in zip(classes, [0.665241, 0.244728, 0.090031]) {
            XCTAssertEqual(found.probability, wanted, accuracy: 1e-5)
        }
        XCTAssertEqual(Manifest.Classes.Scores.probabilities.probabilities(of: [0.25, 0.75]), [0.25, 0.75])
        XCTAssertEqual(Manifest.Classes.Scores.independent.probabilities(of: [0.9985, 0.881]), [0.9985, 0.881])
        XCTAssertEqual(Manifest.Classes.Scores.logits.probabilities(of: [0, 0]), [0.5, 0.5])
    }
}
