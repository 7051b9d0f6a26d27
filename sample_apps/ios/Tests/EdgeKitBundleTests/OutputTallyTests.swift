import XCTest

@testable import EdgeKitBundle

final class OutputTallyTests: XCTestCase {
    func testAnOutputThatIsTooFarOffFails() {
        var tally = OutputTally(Manifest.Golden.Output(name: "logits", floorDb: 40, maxMismatch: nil))
        tally.add(wanted: [3, 4], found: [3, 4.05])
        XCTAssertEqual(tally.decibels, 40, accuracy: 1e-9)  // 25 / 0.0025
        XCTAssertTrue(tally.report.passed)
        tally.add(wanted: [0, 0], found: [0.01, 0])
        XCTAssertFalse(tally.report.passed)
    }

    func testANaNOnOneSideFails() {
        var tally = OutputTally(Manifest.Golden.Output(name: "logits", floorDb: 40, maxMismatch: nil))
        tally.add(wanted: [3, 4], found: [3, .nan])
        XCTAssertFalse(tally.report.passed)
    }

    func testIntegersAreJudgedByTheirUnequalElements() {
        var tally = OutputTally(Manifest.Golden.Output(name: "classes", floorDb: nil, maxMismatch: 0.25))
        tally.add(wanted: [1, 2, 3, 4], found: [1, 2, 3, 5])
        XCTAssertTrue(tally.report.passed)
        tally.add(wanted: [1], found: [2])
        XCTAssertFalse(tally.report.passed)
    }
}
