import CoreML
import XCTest
@testable import EdgeKitBundle

final class StateTests: XCTestCase {
    private func model() async throws -> MLModel { try await ModelBundle().loadModel(cache: nil) }

    /// The stub adds to -x how many runs were before in its state.
    func testEachSequenceStartsAnew() async throws {
        let model = try await model()
        let input: [String: Any] = ["x": try model.inputArray([3, 4], named: "x")]
        for _ in 0..<2 {
            let sequence = try model.newSequence()
            for step in 0..<3 {
                let found = try sequence.outputs(for: input).outputValues(named: "y")
                XCTAssertEqual(found, [-3 + Double(step), -4 + Double(step)])
            }
        }
        XCTAssertEqual(try model.outputs(for: input).outputValues(named: "y"), [-3, -4])
    }
}
