import CoreGraphics
import Foundation
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

    /// Output of 8-bit integers: 64 / 256 and 192 / 256, and integers that nothing is known of.
    func testIntegersThatStandForProbabilities() throws {
        let told = #"{"output": "p", "scores": "probabilities", "scale": 0.00390625, "zeroPoint": 0}"#
        let integers = #"{"output": "p", "scores": "integers"}"#
        XCTAssertEqual(try probabilities(told, of: [64, 192]), [0.25, 0.75])
        XCTAssertNil(try probabilities(integers, of: [64, 192]))
    }

    private func probabilities(_ json: String, of numbers: [Double]) throws -> [Double]? {
        try JSONDecoder().decode(Manifest.Classes.self, from: Data(json.utf8)).probabilities(of: numbers)
    }
}
