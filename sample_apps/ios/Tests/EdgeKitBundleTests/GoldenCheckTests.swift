import CoreML
import XCTest

@testable import EdgeKitBundle

/// Runs the golden check of every bundle that lies in Resources, on the device that the tests run on.
final class GoldenCheckTests: XCTestCase {
    func testBundlesComputeWhatTheOriginalsCompute() async throws {
        let bundles = try packagedBundles()
        try XCTSkipIf(bundles.isEmpty, "there is no bundle in Tests/EdgeKitBundleTests/Resources")
        for bundle in bundles {
            let report = try await bundle.runGoldenCheck()
            let attachment = XCTAttachment(data: try report.json(), uniformTypeIdentifier: "public.json")
            attachment.name = "\(bundle.manifest.name).json"
            attachment.lifetime = .keepAlways
            add(attachment)
            XCTAssertTrue(report.passed, "\(bundle.manifest.name): \(report.outputs)")
        }
    }

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

    private func packagedBundles() throws -> [ModelBundle] {
        let folder = try XCTUnwrap(Bundle.module.url(forResource: "Resources", withExtension: nil))
        return try FileManager.default
            .contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            .filter { FileManager.default.fileExists(atPath: $0.appendingPathComponent("manifest.json").path) }
            .map { try ModelBundle(folder: $0) }
    }
}
