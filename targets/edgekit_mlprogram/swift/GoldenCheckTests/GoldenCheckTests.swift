import Foundation
import PackagedModel
import PackagedModelGolden
import XCTest

/// Runs this bundle's golden check on the device that the tests run on.
final class GoldenCheckTests: XCTestCase {
    /// Environment variable that names the folder for the results file; by default the temporary one.
    private static let variable = "EDGEKIT_RESULTS"

    func testThisDeviceComputesWhatTheOriginalModelComputes() async throws {
        let bundle = try ModelBundle(goldenSamples: GoldenSamples.folder)
        let results = try await bundle.runGoldenSamples()
        let file = try write(results, of: bundle)
        print("edgekit verify BUNDLE --results \(file.path)")
        let report = try bundle.report(on: results)
        XCTAssertTrue(report.passed, "\(report.outputs)")
    }

    /// Writes the results file; Xcode keeps it with the test's report too, where it can be saved from.
    private func write(_ results: GoldenResults, of bundle: ModelBundle) throws -> URL {
        let folder = ProcessInfo.processInfo.environment[Self.variable].map { URL(fileURLWithPath: $0) }
        let file = (folder ?? FileManager.default.temporaryDirectory)
            .appendingPathComponent("\(bundle.manifest.name).results.json")
        let content = try results.json()
        try content.write(to: file)
        #if canImport(ObjectiveC)
        let attachment = XCTAttachment(data: content, uniformTypeIdentifier: "public.json")
        attachment.name = file.lastPathComponent
        attachment.lifetime = .keepAlways
        add(attachment)
        #endif
        return file
    }
}
